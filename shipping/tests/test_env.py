"""A wrong value ends the process at its start, with the variable's name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from shipping import env
from shipping.file_storage import files_in

POSTGRESQL = "postgresql://me:p%40ss@db:5432/parcels"


def optional_credentials(name: str) -> dict[str, str]:
    return env.credentials(name, development="{}")


def some_redis(name: str) -> str:
    return env.store(name, "redis://127.0.0.1:6379/0")


def some_broker(name: str) -> str:
    return env.store(name, "redis://127.0.0.1:6379/0", "amqp")


def optional_secret(name: str) -> str:
    return env.secret(name, development=None)


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (lambda name: env.boolean(name, False), "Yes", True),
        (lambda name: env.boolean(name, True), "off", False),
        (lambda name: env.integer(name, 5), "7", 7),
        (lambda name: env.seconds(name, 5), "0.5", 0.5),
        (lambda name: env.share(name, 0.5), "1", 1.0),
        (env.words, " a, ,b ", ["a", "b"]),
        (env.secrets, " a, ,b ", ["a", "b"]),
        (lambda name: env.choice(name, "a", ("a", "b")), "b", "b"),
        (env.origin, "", ""),
        (env.origin, "https://api.example", "https://api.example"),
        (env.origin, "http://[::1]:8000", "http://[::1]:8000"),
        (some_redis, "rediss://host/1", "rediss://host/1"),
        (some_broker, "amqp://host//", "amqp://host//"),
        (some_redis, "redis+sentinel://a,b/shop/0", "redis+sentinel://a,b/shop/0"),
        (env.storage, "", None),
        (env.storage, "file:///srv/my%20labels", files_in("/srv/my labels")),
        (optional_secret, "given", "given"),
        (optional_credentials, '{"api_key": "k"}', {"api_key": "k"}),
    ],
)
def test_a_good_value_is_read(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], Any], value: str, result: Any
) -> None:
    monkeypatch.setenv("SOME_NAME", value)
    assert read("SOME_NAME") == result


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda name: env.boolean(name, False), "maybe"),
        (lambda name: env.integer(name, 5), "five"),
        (lambda name: env.integer(name, 5), "1.5"),
        (lambda name: env.integer(name, 5, minimum=1), "0"),
        (lambda name: env.integer(name, 5, maximum=6), "7"),
        (lambda name: env.rate_limits(name, "1/s"), "lots"),
        (lambda name: env.rate_limits(name, "1/s"), ""),
        (lambda name: env.seconds(name, 5), "soon"),
        (lambda name: env.seconds(name, 5), "nan"),
        (lambda name: env.seconds(name, 5), "inf"),
        (lambda name: env.seconds(name, 5), "1e12"),
        (lambda name: env.seconds(name, 5, minimum=0.1), "-1"),
        (lambda name: env.seconds(name, 5, maximum=15), "15.5"),
        (lambda name: env.share(name, 0.5), "0"),
        (lambda name: env.share(name, 0.5), "1.1"),
        (lambda name: env.choice(name, "a", ("a", "b")), "c"),
        (env.origin, "api.example"),
        (env.origin, "ftp://api.example"),
        (env.origin, "https://"),
        (env.origin, "https://api.example/"),
        (env.origin, "https://api.example/v2"),
        (env.origin, "https://api.example?x=1"),
        (env.origin, "https://me@api.example"),
        (env.origin, "https://api.example:https"),
        (some_redis, "postgresql://host/name"),
        (some_redis, "amqp://host//"),
        (some_redis, "localhost:6379"),
        (some_redis, "redis:6379"),
        (some_broker, "amqp:5672"),
        (some_redis, "redis+sentinel://a,b"),
        (some_redis, "redis://host:port/0"),
        (some_redis, "redis://host:99999/0"),
        (some_redis, "rediss://host:6379/nought"),
        (some_redis, "redis://:se/cret@host:6379/0"),
        (some_redis, "redis+sentinel://me:12/se@host:26379/0"),
        (some_redis, "redis://:12#se@host:6379/0"),
        (env.storage, "/srv/labels"),
        (env.storage, "file:///"),
        (env.storage, "file://srv/labels"),
        (env.storage, "s3:///labels"),
        (env.storage, "s3://bucket?secret_key=x"),
        (lambda name: env.database(name, ""), "mysql://db/parcels"),
        (lambda name: env.database(name, ""), "postgresql://db"),
        (lambda name: env.database(name, ""), "postgresql://db/parcels?sslmod=require"),
        (lambda name: env.database(name, ""), "postgresql://me:se/cret@db/parcels"),
        (lambda name: env.database(name, ""), "postgresql://me:12/se@db/parcels"),
        (lambda name: env.database(name, ""), "postgresql://[::1/parcels"),
        (lambda name: env.database(name, ""), "sqlite:////tmp/db?timeout=5"),
        (lambda name: env.database(name, ""), "sqlite://"),
        (lambda name: env.database(name, ""), "sqlite://data/db"),  # it would be db
        (optional_secret, None),
    ],
)
def test_a_bad_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], Any], value: str | None
) -> None:
    monkeypatch.delenv("SOME_NAME", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_NAME", value)
    with pytest.raises(ImproperlyConfigured, match="SOME_NAME") as refused:
        read("SOME_NAME")
    assert "'se'" not in str(refused.value)  # a piece of a password


@pytest.mark.parametrize("value", ["localhost:6379", "redis:6379", ":se@redis:6379/0"])
def test_an_address_without_a_scheme_is_shown_one(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SOME_NAME", value)
    with pytest.raises(ImproperlyConfigured, match=r"^SOME_NAME .*redis://, rediss://") as refused:
        some_redis("SOME_NAME")
    assert value not in str(refused.value)


def test_a_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    monkeypatch.setenv("SOME_NAME_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match="SOME_NAME_FILE"):
        optional_secret("SOME_NAME")
    file.write_bytes(b"\xfe" * 32)  # random bytes are no text
    with pytest.raises(ImproperlyConfigured, match="SOME_NAME_FILE") as refused:
        optional_secret("SOME_NAME")
    assert "fe" not in str(refused.value)
    file.write_text("from the file\n")
    assert optional_secret("SOME_NAME") == "from the file"


@pytest.mark.parametrize("read", [env.store, env.database])
def test_an_address_with_a_password_may_come_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: Callable[..., Any]
) -> None:
    address = POSTGRESQL if read is env.database else "redis://:secret@there:6379/0"
    monkeypatch.setenv("SOME_NAME", address)
    expected = read("SOME_NAME", "")
    monkeypatch.setenv("SOME_NAME", "an address that the file's wins over")
    monkeypatch.setenv("SOME_NAME_FILE", str(tmp_path / "address"))
    (tmp_path / "address").write_text(f"{address}\n")
    assert read("SOME_NAME", "") == expected


def test_former_secrets_come_from_a_file_one_by_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "former"
    monkeypatch.setenv("SOME_NAME_FILE", str(file))
    file.write_text("")
    assert env.secrets("SOME_NAME") == []
    file.write_text("newer\nolder\n")
    assert env.secrets("SOME_NAME") == ["newer", "older"]


def test_the_database_s_address_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", POSTGRESQL)
    database = env.database("SOME_NAME", "")
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db", "5432", "parcels")
    assert (database["USER"], database["PASSWORD"]) == ("me", "p@ss")


def test_a_database_may_be_asked_for_by_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "?sslmode=verify-full&sslrootcert=/ca.pem"
    monkeypatch.setenv("SOME_NAME", f"postgresql://me@db/parcels{asked}")
    options = env.database("SOME_NAME", "")["OPTIONS"]
    assert options == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}


def test_a_database_may_have_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "postgresql://me:p%40ss@one:5433,two/parcels")
    database = env.database("SOME_NAME", "")
    assert (database["HOST"], database["PORT"]) == ("one,two", "5433,")


@pytest.mark.parametrize("value", ["k3y", '"k3y"', '["k3y"]', '{"api_key": ["k3y"]}', '{"k3y'])
def test_credentials_that_are_none_are_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SOME_NAME", value)
    with pytest.raises(ImproperlyConfigured, match="SOME_NAME is not a JSON object") as raised:
        optional_credentials("SOME_NAME")
    assert "k3y" not in str(raised.getrepr(showlocals=False, style="value"))
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.parametrize("given", [None, ""])
def test_a_folder_that_is_not_named_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None
) -> None:
    """An empty name would be the folder in which the process was started."""
    if given is None:
        monkeypatch.setenv("SOME_NAME", "")  # what is set below ends with the test
        monkeypatch.delenv("SOME_NAME")
    else:
        monkeypatch.setenv("SOME_NAME", given)
    default = tmp_path / "metrics"
    assert env.directory("SOME_NAME", default) == default
    assert os.environ["SOME_NAME"] == str(default)
    assert default.is_dir()
