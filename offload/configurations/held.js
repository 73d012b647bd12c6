// A held client: the app has answered 418 with a ticket, its worker is free. Lies beside nginx.conf.

// The request itself goes on to the hub. A subrequest would run in the background, where nginx no
// longer watches the client: one that hangs up would stay at the hub until its answer.
function hold(r) {
    r.internalRedirect("/_offload/hold/" + r.variables.upstream_http_x_offload_ticket);
}

export default { hold };
