"""The hub's question to the app: a signed POST to its internal endpoint."""

from __future__ import annotations

import asyncio
import time
from http.client import HTTPMessage
from typing import IO
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from offload.answer import Answer
from offload.protocol import decode_answers, encode_question, sign_question

# Seconds per socket operation; the total is bounded by waiting.ASK_TIMEOUT.
SOCKET_TIMEOUT = 2.0


class _NoRedirect(HTTPRedirectHandler):
    """Refuse: urllib would turn the POST into a GET, and the signature with it into nonsense."""

    def redirect_request(  # noqa: PLR0917 # urllib's signature
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _opener() -> OpenerDirector:
    # Without proxies: an environment's http_proxy is not for a neighbour on this machine.
    return build_opener(ProxyHandler({}), _NoRedirect)


class AskApp:
    """Ask at `url`, signed with `secret`; a waiting.Resolve."""

    def __init__(self, url: str, secret: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the resolve URL is http or https, not {url!r}")
        self._url = url
        self._secret = secret
        self._opener = _opener()

    async def __call__(self, hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]:
        body = encode_question(hold_ids, final_only=final_only)
        return decode_answers(await asyncio.to_thread(self._post, body))

    def _post(self, body: bytes) -> bytes:
        headers = {
            "Content-Type": "application/json",
            "Authorization": sign_question(self._secret, body, now=time.time()),
        }
        request = Request(self._url, body, headers)  # noqa: S310 # its scheme is checked above
        try:
            with self._opener.open(request, timeout=SOCKET_TIMEOUT) as response:
                answers: bytes = response.read()
        except OSError as error:  # urllib's own, too: without the address it says nothing
            raise ConnectionError(f"{self._url}: {error}") from error
        return answers
