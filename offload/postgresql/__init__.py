"""PostgreSQL instead of Redis: one unlogged table, and NOTIFY.

An answer is written in the transaction that writes the outcome: both are there, or neither is. A
crash of the server empties the table, including the epoch, and the app is asked for the rest.
"""

# psycopg's placeholders; `life` in seconds. Expired rows are ignored.
READ = "SELECT key, value FROM offload_store WHERE key = ANY(%s) AND expires_at > clock_timestamp()"
# The first one counts, as long as it lives; returns the keys that were new.
ADD = """
    INSERT INTO offload_store (key, value, expires_at)
    SELECT key, value, clock_timestamp() + make_interval(secs => life)
    FROM unnest(%s::text[], %s::bytea[], %s::float8[]) AS new (key, value, life)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
    WHERE offload_store.expires_at <= clock_timestamp()
    RETURNING key
"""
DELETE = "DELETE FROM offload_store WHERE key = ANY(%s)"
NOTIFY = (
    "SELECT pg_notify(channel, payload) FROM unnest(%s::text[], %s::text[]) AS n (channel, payload)"
)
# A bounded number of rows, by the index: no write waits for all of them.
PRUNE = """
    DELETE FROM offload_store WHERE key IN (
        SELECT key FROM offload_store WHERE expires_at < clock_timestamp() LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
"""
# The process that the server has for a connection. A pooler in transaction mode gives a connection
# a number that it made up: behind one nothing is heard, and nothing prepared is found again.
BACKEND = "SELECT pg_backend_pid()"
# Seconds that something without an end of its own lives: the epoch. A day is longer than any hold;
# a new one only makes the hubs ask the app once.
DAY = 86_400.0
