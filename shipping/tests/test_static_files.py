"""Static files before views that are coroutines."""

import asyncio

from django.http import HttpResponse
from django.test import RequestFactory

from shipping.static_files import static_files


async def view(request):
    return HttpResponse(asyncio.current_task().get_name())


def ask(path):
    """Ask as an ASGI server does; return the answer, and the name of the task that asked."""

    async def asked():
        return await static_files(view)(RequestFactory().get(path)), asyncio.current_task()

    return asyncio.run(asked())


def test_a_static_file_is_served():
    response, _ = ask("/static/rest_framework/css/default.css")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")


def test_everything_else_is_the_view_s_in_the_same_task():
    response, task = ask("/api/v2/parcels")
    assert response.content.decode() == task.get_name()
