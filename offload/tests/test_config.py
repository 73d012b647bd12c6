"""`manage.py offload_config`: whole files, that close what must be closed."""

import asyncio
import io
import re
import shutil
import subprocess

import pytest
from django.core.management import call_command

from offload import idle
from offload.management.commands.offload_config import KINDS, TEMPLATES, Command
from offload.tests import releases
from offload.tests.processes import Process, answers_at, free_port, start_hub, until

NGINX = ["nginx-accel", "nginx-njs", "uwsgi-nginx"]
WITH_HUB = ["nginx-accel", "nginx-njs"]
needs_nginx = pytest.mark.skipif(not shutil.which("nginx"), reason="needs nginx")


@pytest.fixture(autouse=True)
def settled(offload_settings):
    offload_settings(
        {
            "WSGI_APPLICATION": "shop.wsgi.application",
            "ASGI_APPLICATION": None,
            "SETTINGS_MODULE": "shop.settings",
        },
        BACKEND="accel",
        DEADLINE=55,
    )


def printed(kind, **options):
    out = io.StringIO()
    call_command(Command(), kind, stdout=out, **options)
    return out.getvalue()


@pytest.mark.parametrize("file", ["to_http.conf", "to_uwsgi.conf", "hold.conf"])
def test_there_is_time_to_pass_over_four_dead_nodes(file):
    text = (TEMPLATES / file).read_text()
    (in_all,) = re.findall(r"next_upstream_timeout (\d+)s;", text)
    (each,) = re.findall(r"connect_timeout (\d+)s;", text)
    assert int(in_all) > 4 * int(each)


def location(text, name):
    """Return the body of a location block."""
    start = text.index(f"location {name} {{")
    return text[start : text.index("\n        }\n", start)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_fill_in(kind):
    text = printed(kind, hub="10.0.0.9:8100")
    assert not re.search(r"\$[({][A-Z]|^@|include offload/", text, re.MULTILINE)
    assert text.count("[uwsgi]\n") == (kind == "uwsgi")
    assert f"offload_config {kind}" in text or kind == "held.js"


@pytest.mark.parametrize("kind", [*WITH_HUB, "uwsgi"])
def test_the_hub_is_where_it_was_said(kind):
    assert "10.0.0.9:8100" in printed(kind, hub="10.0.0.9:8100")


@pytest.mark.parametrize("kind", NGINX)
def test_no_request_makes_a_server_a_dead_one(kind):
    """A server that is added is written as the first: one client could have all taken for dead."""
    servers = re.findall(r"^ +server (?!\{).*", printed(kind), re.MULTILINE)
    assert len(servers) == (2 if kind in WITH_HUB else 1)
    assert all(server.endswith(" max_fails=0;") for server in servers), servers


@pytest.mark.parametrize("kind", NGINX)
def test_a_connection_opened_ahead_lives_as_long_as_uvicorn_s(kind):
    assert f" client_header_timeout {idle.LIMIT:.0f}s;" in printed(kind)


@pytest.mark.parametrize("kind", NGINX)
def test_the_internal_side_is_closed(kind):
    text = printed(kind)
    assert "return 404" in location(text, "^~ /_offload/")
    for line in ("X-Offload-Ticket", "X-Offload-Request", "X-Accel-Redirect"):
        plain = "HTTP_" + line.upper().replace("-", "_")
        assert re.search(f'{line} "";|{plain} ', location(text, "/")), line
    assert "underscores_in_headers off" in text


@pytest.mark.parametrize("kind", WITH_HUB)
def test_each_request_has_its_own_connection_to_the_app(kind):
    """nginx' default until 1.29.7; servers close what it keeps after two seconds, or at once."""
    assert "proxy_set_header Connection close;" in location(printed(kind), "/")


@pytest.mark.parametrize("kind", WITH_HUB)
def test_the_hub_gets_nothing_of_the_client_s(kind):
    hub = location(printed(kind), "^~ /_offload/hold/")
    for directive in ("internal", "proxy_pass_request_headers off", "proxy_pass_request_body off"):
        assert f"{directive};" in hub
    assert "error_page 410 502 504 = @hub_gone;" in hub


@pytest.mark.parametrize("kind", NGINX)
def test_a_lost_hub_has_an_answer(kind):
    assert "/_offload/late/" in location(printed(kind), "@hub_gone")


def test_time_outs_are_over_the_longest_hold(offload_settings):
    offload_settings(DEADLINE=100)
    text = printed("nginx-accel")
    assert "proxy_read_timeout 130s" in text
    assert "worker_shutdown_timeout 130s" in text


def test_the_asgi_file_is_a_program():
    text = printed("asgi")
    compile(text, "asgi.py", "exec")
    assert '"shop.settings"' in text
    assert "shop.asgi:application" in text


def test_uvicorn_keeps_connections_as_long_as_balancers_do():
    """By default for 5 s: what a balancer sends at that moment is a 502."""
    for text in (printed("asgi"), (TEMPLATES.parent / "README.md").read_text()):
        assert f"--timeout-keep-alive {idle.LIMIT:.0f} " in text


class Nginx:
    def __init__(self, folder, text):
        own = [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "uwsgi")]
        own += [f"{kind}_temp_path {folder}/{kind};" for kind in ("fastcgi", "scgi")]
        # Where this machine has its modules, and where a test may write.
        module = next(iter(find_njs()), None)
        text = text.replace("modules/ngx_http_js_module.so", str(module))
        text = text.replace("http {", "\n".join(["http {", *own]), 1)
        (folder / "nginx.conf").write_text(text)
        (folder / "held.js").write_text(printed("held.js"))
        global_ = f"daemon off; pid {folder}/pid; error_log stderr;"
        self.command = ["nginx", "-p", f"{folder}/", "-c", "nginx.conf", "-g", global_]


def find_njs():
    places = ("/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules")
    return [f"{place}/ngx_http_js_module.so" for place in places if shutil.which("nginx")][:1]


@needs_nginx
@pytest.mark.integration
@pytest.mark.parametrize("kind", NGINX)
def test_nginx_takes_the_file(tmp_path, kind):
    command = Nginx(tmp_path, printed(kind, listen=f"127.0.0.1:{free_port()}")).command
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    if kind == "nginx-njs" and "js_module.so" in done.stderr:
        pytest.skip("needs njs")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def front(project, redis_server, started, tmp_path):
    """nginx as printed, before the test project; `start_hub` is the test's affair."""
    folder = tmp_path / "nginx"
    folder.mkdir()
    hub, port = free_port(), free_port()
    text = printed(
        "nginx-accel",
        listen=f"127.0.0.1:{port}",
        app=f"127.0.0.1:{project.port}",
        hub=f"127.0.0.1:{hub}",
    )
    process = started(Process(*Nginx(folder, text).command, directory=folder))
    until(lambda: answers_at(port), what="nginx")
    process.hub_port = hub
    process.url = f"http://127.0.0.1:{port}"
    return process


@needs_nginx
@pytest.mark.integration
async def test_a_client_is_held_by_the_printed_file(
    http, front, project, redis_server, started, hold_id
):
    started(start_hub(redis_server.url, port=front.hub_port))

    async def post():
        async with http.post(f"{front.url}/hold/{hold_id}", data=b"x" * 1000) as answer:
            return answer.status, await answer.json()

    held = asyncio.create_task(post())
    await asyncio.sleep(0.5)
    assert not held.done()
    async with http.post(f"{project.url}/release/{hold_id}", json={"a": 1}) as answer:
        assert (await answer.json()) == {"sent": True}
    assert await held == (200, {"final": {"a": 1}})


@needs_nginx
@pytest.mark.integration
async def test_without_a_hub_the_late_answer_comes_at_once(http, front, hold_id):
    async with http.post(f"{front.url}/hold/{hold_id}") as answer:
        assert (answer.status, await answer.json()) == (202, {"late": hold_id})
        assert answer.headers["Location"] == f"/outcome/{hold_id}"


@needs_nginx
@pytest.mark.integration
@pytest.mark.parametrize("place", ["late", "poll", "hold", "answers"])
async def test_clients_find_nothing_inside(http, front, hold_id, place):
    text = releases.ticket(hold_id)
    async with http.get(f"{front.url}/_offload/{place}/{text}") as answer:
        assert answer.status == 404


@needs_nginx
@pytest.mark.integration
async def test_what_the_hub_hears_of_a_client(http, front, hold_id):
    heard = []

    async def hear(reader, writer):
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", front.hub_port):
        headers = {"Cookie": "sessionid=secret", "Authorization": "Basic eDp5"}
        async with http.post(f"{front.url}/hold/{hold_id}", data=b"x", headers=headers) as answer:
            assert answer.status == 200
    assert heard[0].startswith(b"GET /_offload/hold/")
    assert b"secret" not in heard[0]
    assert b"Basic" not in heard[0]
