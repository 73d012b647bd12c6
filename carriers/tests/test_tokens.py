"""The cache of login tokens."""

from carriers.tokens import LARGEST_CACHE, MARGIN, TokenCache

ONE, OTHER = {"username": "a", "password": "b"}, {"username": "a", "password": "c"}


def test_a_token_is_kept_for_its_credentials_until_shortly_before_its_end():
    now = [0.0]
    cache = TokenCache(clock=lambda: now[0])
    cache.put(ONE, "t", 600)
    assert cache.get(ONE) == "t"
    assert cache.get(OTHER) is None, "a changed password logs in anew"
    now[0] = 600 - MARGIN
    assert cache.get(ONE) is None


def test_dropping_an_old_token_keeps_a_newer_one():
    cache = TokenCache()
    cache.put(ONE, "new", 600)
    cache.drop(ONE, "old")
    assert cache.get(ONE) == "new"
    cache.drop(ONE, "new")
    assert cache.get(ONE) is None
    cache.drop(OTHER, "never there")


def test_the_cache_is_bounded_and_holds_no_passwords():
    cache = TokenCache()
    for number in range(LARGEST_CACHE + 5):
        cache.put({"username": str(number), "password": "hush"}, "t", 600)
    assert len(cache._tokens) <= LARGEST_CACHE
    assert "hush" not in repr(cache._tokens)
