"""A whole Django project with one slow view: `uvicorn offload.example.slow:application`."""

import os
import threading
import time
import uuid

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

settings.configure(
    SECRET_KEY="an example's secret: 32 characters or more",  # noqa: S106 # an example's
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "offload.middleware.OffloadMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
    INSTALLED_APPS=["offload"],
    OFFLOAD={
        "BACKEND": "asgi",
        "REDIS_URL": os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        "RESOLVE": f"{__name__}.resolve",
    },
)

from offload import get_asgi_application, hold, release  # noqa: E402 # after the settings

outcomes: dict[str, str] = {}  # the database


def slow(request: HttpRequest) -> HttpResponse:
    hold_id = uuid.uuid4().hex
    threading.Thread(target=work, args=[hold_id]).start()
    late = JsonResponse({"state": "working"}, status=202, headers={"Retry-After": "5"})
    return hold(hold_id, late=late, wait=float(request.GET.get("wait", 30)))


def work(hold_id: str) -> None:
    time.sleep(1)  # a slow third party
    outcomes[hold_id] = "done"
    release(hold_id, resolve([hold_id])[hold_id])


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    return {key: JsonResponse({"state": outcomes[key]}) for key in hold_ids if key in outcomes}


urlpatterns = [path("slow", slow)]
application = get_asgi_application()
