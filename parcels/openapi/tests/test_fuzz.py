"""Schemathesis against the application in process: no 5xx, and no answer that isn't documented.

Good data and bad for each operation, then sequences that feed one answer's ids into the next call.
Seeded by `derandomize`: a red run is red again. What is not checked: that bad data is refused. The
dialect ignores fields that it doesn't know and takes numbers for strings.
"""

from typing import Any

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from parcels.models import WebhookEndpoint, WebhookEvent
from parcels.services import webhooks
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop

# GET /carriers asks Redis; there is none here, which is answered, too.
pytestmark = [pytest.mark.integration, pytest.mark.deployment]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# Enough that each parameter gets a bad value several times; all together take a minute on a slow
# core. Twice as many found nothing more when these numbers were set.
EXAMPLES = 30
SEQUENCES = 40
STEPS = 8
LENIENT: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}


@pytest.fixture
def api(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, str]]:
    """Return the document over the application, and a shop's headers. Nothing waits, or leaves."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.WAIT_DEFAULT = settings.WAIT_MAXIMUM = 0
    monkeypatch.setattr("parcels.services.wake.send", lambda *_, **__: True)
    monkeypatch.setattr(webhooks, "send", lambda *_: True)
    parcel = LabelledParcelFactory.create(id=1)
    ParcelFactory.create(id=2, account=parcel.account)
    endpoint = WebhookEndpoint.objects.create(id=1, account=parcel.account, url="https://a.b/")
    event = WebhookEvent.objects.create(account=parcel.account, parcel=parcel, status=1000)
    webhooks.spread(event.pk)
    assert endpoint.deliveries.exists()
    schema = schemathesis.openapi.from_wsgi("/api/v2/schema", get_wsgi_application())
    return schema, {"Authorization": Shop(parcel.account).authorization}


@pytest.mark.django_db
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_each_operation(api: tuple[Any, dict[str, str]], mode: GenerationMode) -> None:
    schema, headers = api
    schema.config.generation.update(modes=[mode])
    called = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=EXAMPLES, **LENIENT)
        def call(case: Any) -> None:
            nonlocal called
            called += 1
            case.call_and_validate(headers=headers, checks=CHECKS)

        call()
    assert called > 100


@pytest.mark.django_db
def test_sequences_of_calls(api: tuple[Any, dict[str, str]]) -> None:
    schema, headers = api

    class Sequences(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            # Each begins with the same rows: hypothesis repeats parts of one, and its answers, from
            # which the next calls are drawn, must be the same then.
            self.undone = transaction.atomic()
            self.undone.__enter__()
            super().setup()

        def teardown(self) -> None:
            super().teardown()
            transaction.set_rollback(True)
            self.undone.__exit__(None, None, None)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": headers}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    run_state_machine_as_test(
        Sequences,
        settings=settings(max_examples=SEQUENCES, stateful_step_count=STEPS, **LENIENT),
    )


@pytest.mark.django_db
def test_a_fault_is_noticed(
    api: tuple[Any, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with a bug in one view the same calls are red."""
    schema, headers = api
    monkeypatch.setattr("parcels.views.webhooks.endpoint_payload", lambda endpoint: 1 / 0)
    operation = schema["/api/v2/webhooks"]["GET"]

    @given(case=operation.as_strategy())
    @settings(max_examples=1, **LENIENT)
    def call(case: Any) -> None:
        case.call_and_validate(headers=headers, checks=CHECKS)

    with pytest.raises((schemathesis.checks.FailureGroup, ZeroDivisionError)):
        call()
