"""The Django project that the tests run in processes of its own.

Its database is a directory: a file `<hold id>.json` there is a committed outcome.
"""

import json
import os
import time
from pathlib import Path

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

OUTCOMES = Path(os.environ["OUTCOMES"])
BACKEND = os.environ.get("BACKEND", "asgi")

settings.configure(
    SECRET_KEY="x" * 50,
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "offload.middleware.OffloadMiddleware",
        "django.middleware.security.SecurityMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    INSTALLED_APPS=["offload"],
    LOGGING_CONFIG=None,
    DATA_UPLOAD_MAX_MEMORY_SIZE=20_000_000,
    OFFLOAD={
        "BACKEND": BACKEND,
        "REDIS_URL": os.environ["REDIS_URL"],
        "SECRET": os.environ["OFFLOAD_SECRET"],
        "RESOLVE": f"{__name__}.resolve",
        "MAX_CONCURRENCY": int(os.environ.get("MAX_CONCURRENCY", "32")),
        "DRAIN_SECONDS": float(os.environ.get("DRAIN_SECONDS", "0.5")),
        "MAX_HOLDS": int(os.environ.get("MAX_HOLDS", "5000")),
        "MAX_HOLDS_PER_ACCOUNT": int(os.environ.get("MAX_HOLDS_PER_ACCOUNT", "5000")),
        "DEADLINE_STATUS": int(os.environ.get("DEADLINE_STATUS", "202")),
    },
)

import offload  # noqa: E402
from offload import lifespan  # noqa: E402
from offload.asgi import HoldMiddleware  # noqa: E402
from offload.counting import here  # noqa: E402
from offload.resolving import hold_middleware_options  # noqa: E402
from offload.threads import InThreads  # noqa: E402

lifespan.ARRIVING_SECONDS = float(os.environ.get("ARRIVING_SECONDS", lifespan.ARRIVING_SECONDS))


def late_answer(hold_id):
    headers = {"Location": f"/outcome/{hold_id}", "Retry-After": "5"}
    response = JsonResponse({"late": hold_id}, status=202, headers=headers)
    response.set_cookie("seen", "late", httponly=True)
    return response


def final_answer(hold_id, outcome):
    response = JsonResponse({"final": outcome}, status=outcome.get("status", 200))
    response["X-Outcome"] = "final"
    return response


@csrf_exempt
def hold(request, hold_id):
    wait = float(request.GET.get("wait", 30))
    account = request.GET.get("account", "")
    return offload.hold(hold_id, late=late_answer(hold_id), wait=wait, account=account)


@csrf_exempt
def release(request, hold_id):
    outcome = json.loads(request.body)
    (OUTCOMES / f"{hold_id}.json").write_text(json.dumps(outcome))
    sent = offload.release(hold_id, final_answer(hold_id, outcome))
    return JsonResponse({"sent": sent})


def wait(request, hold_id):
    answer = offload.wait(hold_id, float(request.GET["seconds"]))
    return answer or JsonResponse({"waited": "in vain"}, status=202)


async def wait_async(request, hold_id):
    answer = await offload.wait_async(hold_id, float(request.GET["seconds"]))
    return answer or JsonResponse({"waited": "in vain"}, status=202)


@csrf_exempt
def echo(request):
    seen = {key: value for key, value in request.META.items() if key.startswith("HTTP_")}
    return JsonResponse({"headers": seen, "length": len(request.body)})


def sleep(request):
    marks = OUTCOMES / "sleeping"
    with marks.open("a") as file:
        file.write("+")
    time.sleep(float(request.GET["seconds"]))
    with marks.open("a") as file:
        file.write("-")
    return HttpResponse("slept")


def counts(request):
    return JsonResponse(here().as_dict())


def resolve(hold_ids, *, final_only=True):
    with (OUTCOMES / "asked").open("a") as file:
        file.write(json.dumps({"ids": len(hold_ids), "final_only": final_only}) + "\n")
    found = {}
    for hold_id in hold_ids:
        outcome = OUTCOMES / f"{hold_id}.json"
        if outcome.exists():
            found[hold_id] = final_answer(hold_id, json.loads(outcome.read_text()))
        elif not final_only:
            found[hold_id] = late_answer(hold_id)
    return found


urlpatterns = [
    path("hold/<str:hold_id>", hold),
    path("release/<str:hold_id>", release),
    path("wait/<str:hold_id>", wait),
    path("wait-async/<str:hold_id>", wait_async),
    path("echo", echo),
    path("sleep", sleep),
    path("counts", counts),
]
django_application = (
    InThreads(get_wsgi_application())
    if os.environ.get("HANDLER") == "wsgi"
    else get_asgi_application()
)
application = (
    HoldMiddleware(django_application, **hold_middleware_options())
    if BACKEND == "asgi"
    else django_application
)
