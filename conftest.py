"""Shared by all tests: real stores, and no sockets where they were not asked for."""

pytest_plugins = ["deploy.fixtures"]
