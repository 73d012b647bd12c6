"""Answers of the carriers as values."""

import base64
import json

from carriers.messages import CarrierResponse
from carriers.outcomes import Document

PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n"
ZPL = b"^XA^FO50,50^FDlabel^FS^XZ"
DOCUMENTS = (Document("label", "pdf", PDF), Document("label", "zpl", ZPL))
PDF64 = base64.b64encode(PDF).decode()
ZPL64 = base64.b64encode(ZPL).decode()


def response(status, body: bytes | str | dict | list = b"", **headers):
    if isinstance(body, dict | list):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    names = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return CarrierResponse(status, names, body)


def drive(steps, *responses):
    """Drive steps by hand; return (the requests made, the outcome)."""
    requests, answers = [], iter(responses)
    try:
        requests.append(next(steps))
        while True:
            requests.append(steps.send(next(answers)))
    except StopIteration as end:
        assert next(answers, None) is None, "an answer was not asked for"
        return requests, end.value
