#!/bin/sh
# Installs Windlass with the extras named in $1 ("train,dev") into .venv, at the versions of requirements.lock.
# Takes about a second when nothing is missing. $PYTHON chooses the interpreter for a new .venv.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in "${PYTHON:-}" python3.11 python3 python3.12 python3.13; do
        if [ -n "$candidate" ] && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Windlass needs Python 3.11 or newer, and there is none on the PATH." \
        "Debian 12, Ubuntu 22.04 and newer: apt-get install python3.11 python3.11-venv (or python3 python3-venv)," \
        "or name one: make PYTHON=/path/to/python3.11"
}

make_venv() {
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "$python cannot make virtual environments. Debian and Ubuntu keep that in a package of its own:" \
        "apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')   (or python3-venv)"
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

# A virtual environment works only at the path where it was made: make a moved or incomplete one again.
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    make_venv
fi
if ! .venv/bin/uv --version >/dev/null 2>&1; then
    .venv/bin/python tools/lock_subset.py --only uv >.venv/uv.lock
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.lock
fi

# A proxy that signs the traffic has its certificate in the system's store only.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"
fi

case "$1" in
*train*) size=" (the first time downloads PyTorch, some gigabytes)" ;;
*) size="" ;;
esac
echo "Installing windlass-train[$1] at the versions of requirements.lock$size"
# Only what the lock names, by version and hash; uv's settings in pyproject.toml are for `make lock`. Compile bytecode now, not in a rank.
.venv/bin/python tools/lock_subset.py "$1" >.venv/packages.lock
.venv/bin/uv pip install --quiet --python .venv/bin/python --compile-bytecode \
    --no-config --require-hashes --requirement .venv/packages.lock
.venv/bin/uv pip install --quiet --python .venv/bin/python --compile-bytecode \
    --no-deps --build-constraints requirements.lock --editable .
