#!/bin/sh
# Make .venv and install the locked packages: venv.sh runtime|dev
# Does nothing when the lock files are the ones that were installed last.
set -eu

cd "$(dirname "$0")/.."
kind=$1
packages="-r requirements.txt -r requirements-redis.txt"
if [ "$kind" = dev ]; then packages="$packages -r requirements-dev.txt"; fi

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# With the packages one comes where it has a wheel (requirements-redis.in).
has_redis() {
    [ -n "${REDIS_URL:-}${REDIS_SERVER:-}" ] || command -v redis-server >/dev/null 2>&1 || {
        [ "$(uname -sm)" = "Linux x86_64" ] &&
            "$1" -c 'import sys; sys.exit(sys.version_info >= (3, 13))' 2>/dev/null
    }
}

# Sets python to the first good interpreter; a name that starts nothing (a shim) is passed over.
find_python() {
    python=""
    for candidate in ${PYTHON3:-} python3 python3.13 python3.12 python3.11; do
        is_new_enough "$candidate" || continue
        has_venv "$candidate" || { lacks_venv=$candidate; continue; }
        if has_redis "$candidate"; then python=$candidate; return; fi
        second_choice=${second_choice:-$candidate}
    done
    python=${second_choice:-}
}

explain_missing_python() {
    if [ -n "${lacks_venv:-}" ]; then
        version=$(version_of "$lacks_venv")
        fail "Python $version is here, but not its venv module. Install it, then run make again:" \
            "    sudo apt-get install python$version-venv"
    fi
    found=$(version_of python3 || echo none)
    fail "Python 3.11 or newer is needed (python3 here: $found). Install one, then run make again:" \
        "    Debian 12, Ubuntu 24.04 or newer:  sudo apt-get install python3 python3-venv" \
        "    macOS:                             brew install python@3.12 redis" \
        "    or name one:                       PYTHON3=/path/to/python3.12 make run"
}

make_venv() {
    find_python
    [ -n "$python" ] || explain_missing_python
    echo "Making .venv with Python $(version_of "$python")"
    "$python" -m venv --clear .venv
}

# A virtual environment whose Python was removed or upgraded away doesn't start.
is_new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv

for lock in $packages; do
    case $lock in -r) continue ;; esac
    cmp -s "$lock" ".venv/$lock.installed" || changed=1
done

if [ -n "${changed:-}" ]; then
    echo "Installing the locked packages into .venv (a minute or two, only when they change)"
    # shellcheck disable=SC2086  # the options are words
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
        --require-hashes $packages ||
        fail "" "Installing failed: the last lines above say why. Then run make again."
    for lock in $packages; do
        case $lock in -r) continue ;; esac
        cp "$lock" ".venv/$lock.installed"
    done
fi
touch .venv/runtime.stamp ".venv/$kind.stamp"
