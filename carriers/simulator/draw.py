"""Seeded chance: the same parts always give the same number, in every process."""

import hashlib

# A double holds 53 bits exactly: more would round, and could round up to 1.0.
_BITS = 53


def draw(*parts: object) -> float:
    """Return a number in [0, 1) that depends on nothing but `parts`."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> (64 - _BITS)) / 2**_BITS
