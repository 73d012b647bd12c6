// Make one call of a published client, as it is but for its base address: node call.js '["parcels",
// "getParcel", [7]]'. Prints what the call returns, or {"status", "data"} of an error's answer.
const SendCloud = require('@aquilacms/sendcloud').default;
const axios = require('axios');

const client = new SendCloud({
  api_key: process.env.PUBLIC_KEY,
  api_secret: process.env.SECRET_KEY,
});
// Its constructor sets the vendor's.
axios.defaults.baseURL = process.env.API;

const [group, name, values] = JSON.parse(process.argv[2]);
client[group][name](...values)
  .catch((error) => ({ status: error.response.status, data: error.response.data }))
  .then((answer) => process.stdout.write(JSON.stringify(answer)));
