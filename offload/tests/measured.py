"""The project that `offload.tests.measure` measures: a page, and a view that waits."""

import asyncio
import json
import os
import sys
import time
import uuid
from functools import partial
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import JsonResponse
from django.urls import path

SECONDS = float(os.environ.get("SECONDS", "30"))
REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
HOLDS = os.environ.get("HOLDS") == "1"
KEEPS = os.environ.get("KEEPS") == "1"

if not settings.configured:
    settings.configure(
        SECRET_KEY="x" * 50,
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=["offload.middleware.OffloadMiddleware"],
        INSTALLED_APPS=["offload"],
        LOGGING_CONFIG=None,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": "postgres",
                "HOST": "127.0.0.1",
                "PORT": os.environ.get("PGPORT", "5432"),
            }
        },
        OFFLOAD={
            "BACKEND": "asgi" if HOLDS else "inline",
            "REDIS_URL": REDIS,
            "SECRET": "x" * 50,
            "DEADLINE": 120,
            "MAX_HOLDS_PER_ACCOUNT": 10_000,
        },
    )

import offload  # noqa: E402
from offload.resolving import hold_middleware_options  # noqa: E402
from offload.threads import InThreads  # noqa: E402

queue = redis.Redis.from_url(REDIS)


def query():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def page(request):
    query()
    return JsonResponse({})


def slow(request):
    query()
    if HOLDS:
        hold_id = uuid.uuid4().hex
        queue.lpush("work", hold_id)
        return offload.hold(hold_id, late=JsonResponse({}, status=202), wait=100)
    if not KEEPS:
        connection.close()  # a view that knows what it does waits without one
    time.sleep(SECONDS)
    return JsonResponse({"done": True})


urlpatterns = [path("page", page), path("slow", slow)]


async def work() -> None:
    """Stand in for a queue's worker: all calls in flight in one event loop."""
    # Not above: the web process may have another offload.
    from offload.keys import ANSWER_KEY, RELEASED_CHANNEL
    from offload.protocol import Answer, encode_answer
    from offload.redis_clients import RedisStore

    client: Any = redis.asyncio.Redis.from_url(REDIS, socket_timeout=None)
    answer = encode_answer(Answer(200, (("Content-Type", "application/json"),), b'{"done": true}'))
    store = RedisStore(REDIS, partial(print, file=sys.stderr))
    tasks: set[asyncio.Task[None]] = set()

    async def one(hold_id):
        await asyncio.sleep(SECONDS)
        await store.pipe.ask("SET", ANSWER_KEY + hold_id, answer, "EX", 60)
        await store.pipe.ask("PUBLISH", RELEASED_CHANNEL, hold_id)

    while True:
        _, hold_id = await client.brpop("work")
        task = asyncio.create_task(one(hold_id.decode()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"working": True}) + "\n")
    asyncio.run(work())
elif HOLDS:
    from offload.asgi import HoldMiddleware

    application: Any = HoldMiddleware(
        InThreads(get_wsgi_application()), **hold_middleware_options()
    )
else:
    from django.core.asgi import get_asgi_application

    application = get_asgi_application()
    wsgi = get_wsgi_application()
