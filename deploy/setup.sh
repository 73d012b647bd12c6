#!/usr/bin/env bash
# Install the system packages that tests and strategies need. As root with apt-get: installs what is
# missing. Otherwise: says what is missing, what is skipped without it, and how to install it.
# Under CI=true a missing component is a failure. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# name | how to see it | Debian packages | Homebrew packages, `cask:` before casks | skipped without it
COMPONENTS='
redis|has redis-server|redis-server|redis|make run, but with Python 3.11 or 3.12 on x86_64 Linux (the packages bring one)
rabbitmq|has_rabbitmq|rabbitmq-server|rabbitmq|tests with RabbitMQ as the broker
pgbouncer|has pgbouncer|pgbouncer|pgbouncer|tests behind PgBouncer
nginx|has nginx|nginx|nginx|strategies behind nginx
njs|has_njs|libnginx-mod-http-js||strategies nginx-njs and nginx-njs-poll (Homebrew has no njs)
postgresql|has_postgresql|postgresql|postgresql|tests against PostgreSQL
haproxy|has haproxy|haproxy|haproxy|tests of several machines, and fault F29
libev|has_libev|libev-dev gcc|libev|strategy bjoern (it is compiled)
zsh|has zsh|zsh|zsh|pasting the printed requests into zsh
zbar|has zbarimg|zbar-tools|zbar|tests that scan the labels
bjoern|has_bjoern|libev-dev gcc python3-dev|libev|strategy bjoern
faketime|any_file /usr/lib/*/faketime/libfaketimeMT.so.1|faketime||tests with wrong clocks, and faults F23 and F29 (Linux only)
iproute2|has ip|iproute2||tests of several machines, and fault F29 (Linux only)
compose|has docker-compose|docker-compose|docker-compose|checks of docker-compose.yml
engine|has_engine|docker.io iptables debootstrap|cask:docker|docker-compose.yml on an engine
kubectl|has kubectl||kubectl|checks of deploy/kubernetes (too old in Debian: kubernetes.io/docs/tasks/tools)
npm|has npm|nodejs npm|node|the published client in JavaScript
chromium|has chromium|chromium|cask:chromium|browser tests
chromedriver|has chromedriver|chromium-driver|cask:chromedriver|browser tests
'

has() { command -v "$1" >/dev/null 2>&1; }
any_file() { compgen -G "$1" >/dev/null; }
has_njs() { sh deploy/base/nginx/njs.sh >/dev/null; }
has_postgresql() { { has postgres && has initdb; } || any_file '/usr/lib/postgresql/*/bin/initdb'; }
has_rabbitmq() { has rabbitmq-server || any_file '/usr/lib/rabbitmq/bin/rabbitmq-server'; }
# Root's is a daemon of the tests' own, which may have to make its images itself.
has_engine() { has docker && { [ "$(id -u)" != 0 ] || { has dockerd && has iptables && has debootstrap; }; }; }
has_libev() { { has gcc || has cc; } && { any_file '/usr/include/ev.h' || any_file '/opt/homebrew/include/ev.h' || any_file '/usr/local/include/ev.h'; }; }
# Compiled, so that it has a lock of its own. Only where there is a virtual environment to put it in.
has_bjoern() {
    [ -x .venv/bin/python ] || return 0
    .venv/bin/python -c 'import bjoern' 2>/dev/null
}
install_bjoern() {
    # Where Homebrew puts libev on a newer Mac no compiler looks by itself.
    CPATH="/opt/homebrew/include${CPATH:+:$CPATH}" \
        LIBRARY_PATH="/opt/homebrew/lib${LIBRARY_PATH:+:$LIBRARY_PATH}" \
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
        --require-hashes -r requirements-bjoern.txt || echo "bjoern could not be compiled" >&2
}

# Prints every component's line, with "there" or "missing" in place of the check.
list() {
    local name check rest state
    while IFS='|' read -r name check rest; do
        [ -n "$name" ] || continue
        # shellcheck disable=SC2086  # a check may have arguments
        if $check; then state=there; else state=missing; fi
        printf '%s|%s|%s\n' "$name" "$state" "$rest"
    done <<<"$COMPONENTS"
}
missing() { list | grep "|missing|" || true; }

# Prints the words of a column, each once.
words() { cut -d'|' -f"$1" | tr ' ' '\n' | sed '/^$/d' | sort -u; }

# Debian starts services when it installs them: nginx, Redis and PostgreSQL would take their ports.
# policy-rc.d forbids it; an existing one is somebody's own rule and stays.
forbid_services() {
    local policy=/usr/sbin/policy-rc.d
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
}

install_with_apt() {
    local packages
    packages=$(words 3 <<<"$1" | xargs)
    echo "Installing: $packages"
    forbid_services
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # several packages
    apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null; } ||
        echo "apt-get could not install all of them" >&2
}

report() {
    local name check debian brew skipped
    echo "Not installed here:"
    while IFS='|' read -r name check debian brew skipped; do
        printf '  %-13s skipped without it: %s\n' "$name" "$skipped"
    done <<<"$1"
    if has brew; then
        local casks formulae
        casks=$(words 4 <<<"$1" | sed -n 's/^cask://p' | xargs)
        formulae=$(words 4 <<<"$1" | sed '/^cask:/d' | xargs)
        [ -z "$formulae" ] || echo "Install with:  brew install $formulae"
        [ -z "$casks" ] || echo "Install with:  brew install --cask $casks"
    else
        local packages
        packages=$(words 3 <<<"$1" | xargs)
        [ -z "$packages" ] || echo "Install with:  sudo apt-get install $packages"
    fi
}

# For `manage.py doctor`: installs nothing.
if [ "${1:-}" = --list ]; then
    list
    exit 0
fi

lacking=$(missing)
[ -n "$lacking" ] || exit 0
if [ "$(id -u)" = 0 ] && has apt-get; then
    install_with_apt "$lacking"
fi
has_bjoern || ! has_libev || install_bjoern
lacking=$(missing)
[ -n "$lacking" ] || exit 0
report "$lacking"
if [ "${CI:-}" = true ]; then
    echo "CI=true: nothing may be missing." >&2
    exit 1
fi
