// A held client: the app has answered 418 with a ticket, its worker is free.
// One subrequest waits at the hub. When the client hangs up nginx ends it, and this script with it.

// What nginx writes for this connection itself.
const OWN = ["connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"];

function answer(r, reply) {
    for (const name in reply.headersOut) {
        if (OWN.indexOf(name.toLowerCase()) < 0) {
            r.headersOut[name] = reply.headersOut[name];
        }
    }
    r.return(reply.status, reply.responseBuffer);
}

async function wait(r) {
    // Read now: a subrequest's own upstream headers would take its place.
    const ticket = r.variables.upstream_http_x_offload_ticket;
    let reply = await r.subrequest("/_offload/hold/" + ticket, { method: "GET" });
    if (reply.status == 410 || reply.status == 502 || reply.status == 504) {
        // The hub died with the client in its hands. The app knows the answer, or the 202.
        reply = await r.subrequest("/_offload/late/" + ticket, { method: "GET" });
    }
    answer(r, reply);
}

export default { wait };
