// A held client: the app has answered 418 with a ticket, its worker is free.

// The request itself goes on to the hub. One subrequest would read as well, but njs starts it in
// the background, where nginx no longer watches the client: who hangs up would stay at the hub until
// the answer.
function hold(r) {
    r.internalRedirect("/_offload/hold/" + r.variables.upstream_http_x_offload_ticket);
}

export default { hold };
