# Sourced by the test command: a server to test against, and a Python with the redis package for the interop tests.
# Nothing is installed that is there already.

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
    if ! command -v apt-get >/dev/null; then
        echo "please install: $*" >&2
        return 1
    fi
    as_root apt-get update -qq || true # an old package list may do
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

has_redis_package() {
    "$1" -c 'import redis' 2>/dev/null
}

# Prints the Python that can `import redis`: the one in use, the system's, or one of our own under target/.
find_python() {
    local python
    for python in "${DISTLOCK_TEST_PYTHON:-python3}" /usr/bin/python3 target/interop/bin/python; do
        if has_redis_package "$python"; then
            echo "$python"
            return
        fi
    done
    return 1
}

setup_python() {
    find_python >/dev/null && return
    if command -v python3 >/dev/null && python3 -m venv target/interop >/dev/null 2>&1 &&
        target/interop/bin/pip install --quiet redis; then
        return
    fi
    install_packages python3 python3-redis
}

has_postgres() {
    [ -n "${DISTLOCK_TEST_POSTGRES:-}" ] || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

# The server, of which the package would start one as a service, and a pooler for it.
setup_postgres() {
    if ! has_postgres; then
        as_root mkdir -p /etc/postgresql-common &&
            echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null &&
            install_packages postgresql || return 1
    fi
    command -v "${DISTLOCK_TEST_PGBOUNCER:-pgbouncer}" >/dev/null || install_packages pgbouncer
}

setup() {
    command -v cargo >/dev/null || { echo 'please install Rust (rustup)' >&2; return 1; }
    command -v cc >/dev/null || install_packages gcc libc6-dev || return 1
    command -v "${DISTLOCK_TEST_SERVER:-redis-server}" >/dev/null || install_packages redis-server || return 1
    setup_postgres || return 1
    setup_python || return 1
    DISTLOCK_TEST_PYTHON=$(find_python) || { echo 'no Python with the redis package' >&2; return 1; }
    case $DISTLOCK_TEST_PYTHON in target/*) DISTLOCK_TEST_PYTHON=$PWD/$DISTLOCK_TEST_PYTHON ;; esac
    export DISTLOCK_TEST_PYTHON
    echo "rust:    $(rustc --version)"
    echo "server:  $("${DISTLOCK_TEST_SERVER:-redis-server}" --version)"
    echo "server:  $(ls -d /usr/lib/postgresql/* 2>/dev/null | tail -n 1) for PostgreSQL"
    echo "python:  $("$DISTLOCK_TEST_PYTHON" --version) with redis-py" \
        "$("$DISTLOCK_TEST_PYTHON" -c 'import redis; print(redis.__version__)')"
}
