"""Typed readers of the environment that refuse bad values.

A wrong value ends the process at start, with the variable's name and what it should look like:
a setting that is silently misread is found during an outage.
"""

import json
import os
import re
from ipaddress import ip_network
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from offload.sentinel import BY_SENTINEL, watched
from parcels.throttling.limits import parse_limits
from shipping import file_storage

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}
# Seconds: a century. Dates so far away, or infinitely far, can't be computed when they are needed.
LONGEST = 100 * 365 * 24 * 3600
# What a PostgreSQL's address may ask of libpq: the rest is ours to say (`shipping.postgresql`).
TLS = {"sslmode", "sslrootcert", "sslcert", "sslkey"}


def text(name: str, default: str | None = None) -> str:
    """Return the variable's value, or the default; refuse a missing value without default."""
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set, and it has no default")
    return value


def boolean(name: str, default: bool) -> bool:
    """Return True for 1/true/yes/on and False for 0/false/no/off, in any case."""
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a yes or no: use 1 or 0")


def integer(name: str, default: int, *, minimum: int = 0, maximum: float = inf) -> int:
    """Return a whole number not under `minimum` and not over `maximum`."""
    return int(_number(name, str(default), int, "whole number", minimum=minimum, maximum=maximum))


def seconds(name: str, default: float, *, minimum: float = 0.0, maximum: float = LONGEST) -> float:
    """Return a length of time in seconds, not under `minimum` and not over `maximum`."""
    return float(
        _number(name, str(default), float, "number of seconds", minimum=minimum, maximum=maximum)
    )


def share(name: str, default: float) -> float:
    """Return a share over 0 and up to 1."""
    value = float(_number(name, str(default), float, "share"))
    if not 0 < value <= 1:
        raise ImproperlyConfigured(f"{name}={value!r} is not a share: over 0, at most 1")
    return value


def _number(
    name: str,
    default: str,
    kind: type[int | float],
    what: str,
    *,
    minimum: float = 0.0,
    maximum: float = inf,
) -> int | float:
    value = os.environ.get(name, default)
    try:
        number = kind(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not a {what}") from None
    if not number >= minimum:
        raise ImproperlyConfigured(f"{name}={value!r} is under its minimum of {minimum}")
    if number > maximum:
        raise ImproperlyConfigured(f"{name}={number:.12g} is over its maximum of {maximum:.12g}")
    return number


def words(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list without empty entries."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]


def networks(name: str, *others: str) -> list[str]:
    """Return networks in CIDR form, given with commas or spaces between; `others` are words."""
    given = os.environ.get(name, "").replace(",", " ").split()
    try:
        return [word if word in others else str(ip_network(word)) for word in given]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None


def rate_limits(name: str, default: str) -> str:
    """Return limits like "100/min,15/s", or "none"."""
    value = os.environ.get(name, default)
    try:
        parse_limits(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from None
    return value


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(allowed)}")
    return value


def secret(name: str, *, development: str | None) -> str:
    """Return a secret from the variable, or from the file that `<NAME>_FILE` names.

    `development` is the value to use when neither is set; None refuses.
    """
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE={path!r} can't be read: {error}") from None
        except UnicodeDecodeError:  # whose words show a piece of it
            raise ImproperlyConfigured(f"{name}_FILE={path!r} is no text in UTF-8") from None
    return text(name, development)


def credentials(name: str, *, development: str) -> dict[str, str]:
    """Return a JSON object of texts, which is a secret: no message shows its value."""
    try:
        value = json.loads(secret(name, development=development))
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ImproperlyConfigured(f'{name} is not a JSON object like {{"api_key": "…"}}')
    return value


def secrets(name: str) -> list[str]:
    """Return secrets from a list parted by commas or lines, of the variable or of its file."""
    return secret(name, development="").replace(",", " ").split()


def origin(name: str) -> str:
    """Return what absolute addresses begin with, as `https://host:port`; empty where not set."""
    value = text(name, "")
    if value and not re.fullmatch(r"https?://([^][\s/?#@:]+|\[[0-9a-fA-F:.]+\])(:\d+)?", value):
        raise ImproperlyConfigured(
            f"{name}={value!r} is not like https://parcels.example, without a path or a last slash"
        )
    return value


def store(name: str, default: str, *others: str) -> str:
    """Return the address of a Redis, of one that Sentinels know, or with one of the schemes."""
    url = secret(name, development=default)
    schemes = [f"{scheme}://" for scheme in ("redis", "rediss", BY_SENTINEL, *others)]
    if not url.startswith(tuple(schemes)):
        raise ImproperlyConfigured(f"{name} begins with none of {', '.join(schemes)}")
    try:
        watched(url)
        parts = urlsplit(url)
        if parts.scheme in ("redis", "rediss"):  # redis-py would say so at the first request
            _ = parts.port, int(parts.path.strip("/") or 0)
    except ValueError:  # whose words may show a piece of the password
        raise ImproperlyConfigured(
            f"{name} is not like redis://:password@host:6379/0, nor like {BY_SENTINEL}"
            "://:password@host:26379,host:26379/name/0 (in a password, %2F is /, %23 # and %3F ?)"
        ) from None
    return url


def database(name: str, default: str) -> dict[str, Any]:
    """Return Django's database settings from `sqlite:///path` or `postgresql://user:pw@host:port/db`.

    Several hosts, parted by commas, are handed on to libpq, which takes lists of both; so are the
    options for TLS, as `?sslmode=verify-full&sslrootcert=/ca.pem`.
    """
    given = secret(name, development=default)
    try:
        url = urlsplit(given)
        options = dict(parse_qsl(url.query, keep_blank_values=True))
        if url.scheme == "sqlite" and not (options or url.netloc) and url.path.strip("/"):
            return {"ENGINE": "shipping.sqlite", "NAME": unquote(url.path[1:])}
        # An @ there is a password's with a /, whose first part would be the port.
        named = url.path.strip("/") and "@" not in url.path
        if url.scheme in {"postgres", "postgresql"} and named and options.keys() <= TLS:
            places = [urlsplit(f"//{place}") for place in url.netloc.rpartition("@")[2].split(",")]
            return {
                "ENGINE": "shipping.postgresql",
                "NAME": unquote(url.path[1:]),
                "USER": unquote(url.username or ""),
                "PASSWORD": unquote(url.password or ""),
                "HOST": ",".join(place.hostname or "" for place in places),
                "PORT": ",".join(str(place.port or "") for place in places),
                "OPTIONS": options,
            }
    except ValueError:  # whose words may show a piece of the password
        pass
    raise ImproperlyConfigured(
        f"{name} is neither sqlite:////absolute/path nor postgresql://user:password@host:port/name "
        f"(in a password, %2F is /; options: {', '.join(sorted(TLS))})"
    )


def storage(name: str) -> dict[str, Any] | None:
    """Return an entry of Django's STORAGES; None where the variable is not set.

    From `file:///folder`, or `s3://bucket/prefix?endpoint_url=…`.
    """
    url = urlsplit(text(name, ""))
    if url.scheme == "file" and not url.netloc and url.path.strip("/"):
        return file_storage.files_in(unquote(url.path))
    if url.scheme == "s3" and url.netloc:
        options = dict(parse_qsl(url.query))
        try:
            return file_storage.objects_in(url.netloc, unquote(url.path.strip("/")), options)
        except (ValueError, ImportError) as error:
            hint = "; s3:// needs requirements-s3.txt" if isinstance(error, ImportError) else ""
            raise ImproperlyConfigured(f"{name}: {error}{hint}") from None
    if not url.geturl():
        return None
    raise ImproperlyConfigured(f"{name} is neither file:///absolute/folder nor s3://bucket/prefix")


def directory(name: str, default: Path) -> Path:
    """Return a directory that exists from now on, and leave the variable set to it.

    For libraries that read the environment by themselves.
    """
    path = Path(os.environ.get(name) or default)  # "" would be where the process was started
    os.environ[name] = str(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"{name}={str(path)!r} can't be made: {error}") from None
    return path
