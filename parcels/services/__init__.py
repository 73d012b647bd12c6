"""Writes. Services take keyword arguments; only they change rows."""
