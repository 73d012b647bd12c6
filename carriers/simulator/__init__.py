"""Simulated slow carriers: one ASGI process that stands alone (see README.md)."""
