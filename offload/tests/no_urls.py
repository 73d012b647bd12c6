"""URLs of a project without any: ours need none."""

urlpatterns: list = []
