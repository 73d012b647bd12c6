# As the official one: only its own program is switched to `redis`.
set -eu
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid redis --regid redis --clear-groups sh "$0" "$@"
fi
exec "$@"
