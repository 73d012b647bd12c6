"""Whether a Redis answers, by each kind of address that the settings take."""

import redis

from offload.redis_clients import address, sync_client


def why_no_answer(url: str) -> str:
    """Ask once; return an empty string when it answers, else why not."""
    try:
        with sync_client(url) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        # Of Sentinels without an answer, redis-py appends each client's repr of a dozen options.
        reason = str(error).partition(" : <")[0]
        return f"{address(url)}: {reason}"
    return ""
