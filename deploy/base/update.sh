#!/bin/sh
# Exchange the application's containers for those of another image, without a failed request:
#   TAG=2 sh deploy/base/update.sh
#   COMPOSE="docker compose" TAG=2 sh deploy/base/update.sh    # instead of docker-compose
#
# In the shell, or in .env beside docker-compose.yml, is what `up` was called with. New ones of hub
# and web start beside the old ones and serve when all of them are well; until then nothing has
# changed for clients. Both need memory until the last client of the old ones has its answer. The
# front stays: docs/operations.md says why.
set -eu

# shellcheck disable=SC2086 # it may be two words
compose() { ${COMPOSE:-docker-compose} "$@"; }
count() { echo $(($(compose ps -q "$1" | wc -l))); } # a Mac's wc pads with blanks
: "${TAG:?the new image}"

services=web
set -- --scale "web=$(($(count web) * 2))"
if [ "$(count hub)" -gt 0 ]; then # some strategies have none
    services="hub web"
    set -- "$@" --scale "hub=$(($(count hub) * 2))"
fi
# shellcheck disable=SC2086 # several names
old=$(compose ps -q $services)
[ -n "$old" ] || {
    echo "Nothing runs that could be exchanged: start it with up." >&2
    exit 1
}
# By its tag the front tells new ones from old ones. An update that ended early leaves some, which
# would be doubled, and stopped while clients are at them.
# shellcheck disable=SC2086 # several names
if docker inspect --format '{{.Config.Image}}' $old | grep -qxF "slow-carriers:$TAG"; then
    echo "There are containers of slow-carriers:$TAG. If an update that ended early has left them," \
        "docker rm --force them; else give the image another tag (docker tag)." >&2
    exit 1
fi

compose run --rm migrate
# In their place: what waits is announced some seconds later. Before web, whose messages they read.
compose up --detach --no-deps \
    --scale "worker=$(count worker)" --scale "sweeper=$(count sweeper)" worker sweeper
# shellcheck disable=SC2086 # several names
compose up --detach --no-deps --no-recreate "$@" $services
# Returns when nobody is held by way of the old ones any more.
compose exec -T -e "APP_HOST=web-$TAG" -e "HUB_BIND=hub-$TAG:8100" front \
    python -m deploy.container reload
# shellcheck disable=SC2086 # several names
docker stop --time 140 $old && docker rm $old
