"""URLs of a project that forgot ours."""

urlpatterns: list = []
