"""Static files before views that are coroutines."""

import asyncio

from django.http import HttpResponse
from django.test import RequestFactory

from shipping.static_files import static_files


def ask(path):
    """Ask as an ASGI server does; say whether the view was asked in the caller's own task."""
    tasks = []

    async def view(request):
        tasks.append(asyncio.current_task())
        return HttpResponse("the view's")

    async def asked():
        response = await static_files(view)(RequestFactory().get(path))
        return response, tasks == [asyncio.current_task()]

    return asyncio.run(asked())


def test_a_static_file_is_served():
    response, _ = ask("/static/rest_framework/css/default.css")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")


def test_everything_else_is_the_view_s_in_the_same_task():
    response, same_task = ask("/api/v2/parcels")
    assert response.content == b"the view's"
    assert same_task
