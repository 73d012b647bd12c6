"""Signatures: the contract's check value, and the standard's."""

import json

from parcels.models.webhook import new_secret
from parcels.webhooks.signing import dialect_signature, signature_headers, standard_signature


def test_the_contracts_check_value() -> None:
    body = json.dumps({"key": "value"}).encode()
    assert body == b'{"key": "value"}'
    assert (
        dialect_signature("secretkey", body)
        == "1eed4b3d41f4653ac64fd56f1bf1cbfd349e4482cbc11dff7134bd93e5da4b0a"
    )


def test_the_standards_check_value() -> None:
    """From the specification's reference implementations."""
    signature = standard_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_of_the_shops_own_signs_as_it_is() -> None:
    headers = signature_headers("whsec_our own secret!", "id", 1, b"{}")
    assert headers["webhook-signature"] == "v1,yj0pLIH75T8xW8e7dybceeEMheBerQa0icl/Q9h8KzE="
    assert headers["webhook-id"] == "id"
    assert headers["webhook-timestamp"] == "1"


def test_secrets_are_256_random_bits() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert one.startswith("whsec_")
    assert len(one) == 6 + 44
