"""Tests for pytest."""

from unittest import TestSuite


def load_tests(*_: object) -> TestSuite:
    """Have unittest find none: it may be the `manage.py test` of a project without pytest."""
    return TestSuite()
