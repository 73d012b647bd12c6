"""`settings.OFFLOAD`, read once, typed, and refused if invalid."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.crypto import salted_hmac

from offload.asgi import MAX_CONCURRENCY
from offload.lifespan import DRAIN_SECONDS
from offload.waiting import MAX_HOLDS, MAX_HOLDS_PER_ACCOUNT


@dataclass(frozen=True)
class Offload:
    """The settings by their names in lower case."""

    backend: str = "inline"
    # Where `offload.run` has its work done: "celery", "django" (its own tasks), or for development
    # a "thread" of this process, which dies with it.
    tasks: str = "thread"
    # Where answers wait for their clients: "redis", or the project's own "postgresql" (then
    # "offload.postgresql" is installed, and DATABASE says which one it is).
    store: str = "redis"
    database: str = "default"
    redis_url: str = "redis://127.0.0.1:6379/0"
    # Signs tickets; where there is no hub that must know it, it is made of SECRET_KEY.
    secret: str = ""
    # Secrets that tickets and questions are still, or already, accepted with: for a rotation.
    secret_fallbacks: tuple[str, ...] = ()
    # Seconds that a hold lasts at most. Many load balancers cut silent connections at 60.
    deadline: float = 55.0
    # The status that replaces a late answer's 202; a published setup answered 423.
    deadline_status: int = 202
    # Seconds that a released answer stays in Redis. It outlasts any hold, for clients that join
    # the same outcome later; it is short because it may carry personal data.
    answer_ttl: int = 300
    # Bytes of a late or released body: each is stored in Redis and is in the hub's memory as a
    # whole. Four times Django's own limit for what it keeps in memory.
    max_answer: int = 10_485_760
    # Dotted path to resolve(hold_ids, *, final_only) -> {hold_id: HttpResponse}.
    resolve: str = "offload.awaited.resolve"
    # Where the hub finds this app's internal endpoint.
    resolve_url: str = ""
    max_holds: int = MAX_HOLDS
    max_holds_per_account: int = MAX_HOLDS_PER_ACCOUNT
    max_concurrency: int = MAX_CONCURRENCY
    # Seconds for which a stopping web process keeps its held clients (backend asgi).
    drain_seconds: float = DRAIN_SECONDS

    @cached_property
    def in_database(self) -> bool:
        """Whether the store is the project's own PostgreSQL, which notifies at commit."""
        return self.store == "postgresql"


NAMES = frozenset(field.name.upper() for field in fields(Offload))


def read(values: Any) -> Offload:
    """Return the typed settings, or raise ImproperlyConfigured with the setting's name."""
    if not isinstance(values, Mapping):
        raise ImproperlyConfigured(f"OFFLOAD is a dictionary, not {values!r}")
    unknown = set(values) - NAMES
    if unknown:
        raise ImproperlyConfigured(f"OFFLOAD has no {', '.join(sorted(unknown))}")
    return Offload(**{name.lower(): _typed(name, value) for name, value in values.items()})


def _typed(name: str, value: Any) -> Any:
    kind = type(getattr(Offload, name.lower()))
    if value is None and kind is str:
        return ""
    if kind is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise ImproperlyConfigured(f"OFFLOAD[{name!r}] is a list of texts")
        return tuple(value)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ImproperlyConfigured(f"OFFLOAD[{name!r}] is a {kind.__name__}, not {value!r}")
    if kind in (int, float) and value <= 0:
        raise ImproperlyConfigured(f"OFFLOAD[{name!r}] is over 0, not {value!r}")
    return value


@cache
def current() -> Offload:
    """Return the project's settings."""
    offload = read(getattr(settings, "OFFLOAD", {}))
    if offload.secret:
        return offload
    derived = salted_hmac("offload", "secret", algorithm="sha256").hexdigest()
    return replace(offload, secret=derived)


def _forget(*, setting: str, **_: object) -> None:
    if setting in {"OFFLOAD", "SECRET_KEY"}:
        current.cache_clear()


setting_changed.connect(_forget)
