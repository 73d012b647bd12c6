// A held client: the app has answered 418 with a ticket, its worker is free.
// The app is asked again each second until it has the answer. Kept as it was published, for the
// comparison: each poll grows the request's memory, and an answer waits half a second on average.

// What nginx writes for this connection itself.
const OWN = ["connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"];

// nginx looks at these for a script's own 200, and makes a 412 or a 304 of it. An app's answer
// passes.
const CONDITIONS = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"];

function answer(r, reply, path) {
    if (CONDITIONS.some((name) => r.headersIn[name] !== undefined)) {
        r.internalRedirect(path);
        return;
    }
    for (const name in reply.headersOut) {
        if (OWN.indexOf(name.toLowerCase()) < 0) {
            r.headersOut[name] = reply.headersOut[name];
        }
    }
    if (reply.responseBuffer.length && (reply.status < 300 || reply.status > 399)) {
        r.return(reply.status, reply.responseBuffer);
        return;
    }
    // There it would write nginx' page for an empty error, and a redirect's body as its address;
    // and r.send() takes no Buffer (njs 0.7.9).
    r.status = reply.status;
    r.sendHeader();
    r.finish();
}

// A subrequest whose answer is cut off ends as any other one, and one without an answer as a 502 or 504
// of nginx' own: the client's own answer may be one, too.
function isWhole(reply) {
    const length = reply.headersOut["Content-Length"];
    return reply.variables.upstream_header_time != "-"
        && (length === undefined || reply.responseBuffer.length == length);
}

// Milliseconds between two polls: the published interval.
const INTERVAL = 1000;
// Polls in a row that may fail: a restart of the app takes some seconds. After them the client is
// answered as one whose time is over.
const FAILURES = 15;

function pause() {
    return new Promise((resolve) => setTimeout(resolve, INTERVAL));
}

async function wait(r) {
    // Read now: a subrequest's own upstream headers would take its place.
    const ticket = r.variables.upstream_http_x_offload_ticket;
    const poll = "/_offload/poll/" + ticket;
    const late = "/_offload/late/" + ticket;
    let failures = 0;
    let reply;
    while (failures < FAILURES) {
        await pause();
        reply = await r.subrequest(poll, { method: "GET" });
        if (!isWhole(reply)) {
            failures += 1;
        } else if (reply.status == 204 && reply.headersOut["Retry-After"]) {
            failures = 0;
        } else {
            answer(r, reply, poll);
            return;
        }
    }
    reply = await r.subrequest(late, { method: "GET" });
    if (isWhole(reply)) {
        answer(r, reply, late);
    } else {
        r.return(502);
    }
}

export default { wait };
