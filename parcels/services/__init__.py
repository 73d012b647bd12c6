"""Writes. Services take keywords, and are the only ones who change rows."""
