# POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD_FILE, POSTGRES_INITDB_ARGS, as the official one.
set -eu
if [ "$(id -u)" = 0 ]; then
    chown postgres: "$PGDATA" && chmod 700 "$PGDATA"
    password=$(cat "$POSTGRES_PASSWORD_FILE")
    export password
    exec setpriv --reuid postgres --regid postgres --init-groups sh "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s\n' "$password" > /tmp/password
    # shellcheck disable=SC2086 # several options
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust $POSTGRES_INITDB_ARGS
    rm /tmp/password
    pg_ctl --wait --options="-c listen_addresses= -c unix_socket_directories=/tmp" start
    createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --wait stop
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
fi
unset password
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/tmp
