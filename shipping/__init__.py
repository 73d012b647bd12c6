"""The Django project: settings, urls, entry points, health. No models and no domain words."""

from shipping.celery import app as celery_app

__all__ = ["celery_app"]
