"""A limit on headers for uvicorn, which has none with its faster parser, httptools.

    uvicorn shop.asgi:application --http offload.header_limit:HeaderLimit

The parser copies what it has of a header for each piece that comes: a few clients that send one
without an end would take all processor time and memory.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes of the first line and headers, or of trailers after a body: twice what nginx takes.
MAX_HEADERS = 65_536


class HeaderLimit(HttpToolsProtocol):
    """Answers 400 to more, and closes the connection; at most one piece later than that."""

    _unfinished = 0  # bytes since headers, or a piece of a body, were complete

    def data_received(self, data: bytes) -> None:
        self._unfinished += len(data)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # headers were complete
            self._unfinished = 0
        if self._unfinished > MAX_HEADERS and not self.transport.is_closing():
            self.send_400_response(f"The headers are over {MAX_HEADERS} bytes.")

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        super().on_body(body)
