#!/usr/bin/env bash
# Sets up what the tests need and runs all of them: formatting, lints, documentation, unit, conformance, fault, interop
# and compile-fail tests. Works from a fresh clone on a Debian machine that has only Rust.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

# Most tests wait for something most of the time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}

steps=()
step() {
    local title=$1 begin=$SECONDS
    shift
    printf '\n=== %s ===\n' "$title"
    if ! "$@"; then
        printf '\nFAILED: %s\n    %s\n' "$title" "$*" >&2
        exit 1
    fi
    steps+=("$(printf '%5ss  %s' $((SECONDS - begin)) "$title")")
}

documentation() {
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps
}

# What a program gets that asks for one store and nothing else.
each_store_alone() {
    local store
    for store in redis tls etcd postgres zookeeper mysql memcached; do
        echo "$store"
        cargo clippy --locked --quiet -p distlock --no-default-features --features "$store" -- -D warnings || return 1
    done
}

# What `cargo install distlock-cli` gets: other packages of the workspace turn on features that it may lack.
command_alone() {
    local url process processes=()
    cargo build --locked --quiet -p distlock-cli || return 1
    for url in redis://127.0.0.1:1 rediss://127.0.0.1:1 postgres://127.0.0.1:1/db mysql://127.0.0.1:1/db \
        memcached://127.0.0.1:1 zookeeper://127.0.0.1:1; do
        no_server_at "$url" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || return 1; done
}

# Nobody listens there: 69. A scheme that was not built in would be 64.
no_server_at() {
    local status=0
    target/debug/distlock --url "$1" ping >/dev/null 2>&1 || status=$?
    [ "$status" = 69 ] || { echo "$1: status $status" >&2; return 1; }
}

step 'Set up' setup
step 'Formatting' cargo fmt --all --check
step 'Widths of comments' scripts/check_widths.sh
step 'Lints' cargo clippy --locked --all-targets -- -D warnings
step 'Lints without the Redis backend' cargo clippy --locked -p distlock --no-default-features --all-targets -- -D warnings
step 'Lints with every feature' cargo clippy --locked -p distlock --all-features -- -D warnings
step 'Lints with each store alone' each_store_alone
step 'The command with its own features' command_alone
step 'Documentation' documentation
step 'Lowest versions' env LOWEST_VERSIONS_TARGET_DIR="$PWD/target/lowest" scripts/check_lowest_versions.sh
step 'Oldest Rust' env OLDEST_RUST_TARGET_DIR="$PWD/target/oldest" scripts/check_oldest_rust.sh
step 'Tests' cargo test --locked
step 'Lock-free words under every order of threads' scripts/check_models.sh
step 'Packages' scripts/check_packages.sh
step 'Tests over TLS' cargo test --locked -p distlock --lib --all-features -- tls connection config url
step 'Tests against redis-py' cargo test --locked -p distlock-tests --test interop -- --ignored

printf '\n=== Summary ===\n'
printf '%s\n' "${steps[@]}"
echo 'all passed'
