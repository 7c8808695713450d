#!/usr/bin/env bash
# Sets up what the tests need and runs what a change can break: formatting, lints, documentation, unit, simulation,
# conformance, fault, interop and compile-fail tests. Works from a fresh clone on a Debian machine that has only Rust.
# `--all` adds what a change breaks rarely: the lowest versions, the oldest Rust, the packages, words of memory under
# every order of threads, and longer simulations. `--rest` runs these alone.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

case ${1:-} in
    '' | --all | --rest) ;;
    *)
        echo 'usage: scripts/test.sh [--all | --rest]' >&2
        exit 64
        ;;
esac

# Most tests wait for something most of the time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-8}

mkdir -p target
export SUMMARY=target/steps.txt
printf ' time  CPU time, of all processors\n' >"$SUMMARY"
step() {
    local title=$1 begin=$SECONDS before
    shift
    count_cpu_time
    before=$cpu_time
    printf '\n=== %s ===\n' "$title"
    if ! "$@"; then
        printf '\nFAILED: %s\n    %s\n' "$title" "$*" >&2
        exit 1
    fi
    count_cpu_time
    printf '%4ss %4ss  %s\n' $((SECONDS - begin)) $((cpu_time - before)) "$title" >>"$SUMMARY"
}

# cpu_time: the seconds that the ended children of this shell, and theirs, have taken (proc(5): cutime, cstime).
count_cpu_time() {
    local stat
    read -r -a stat <"/proc/$BASHPID/stat"
    cpu_time=$(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
}

documentation() {
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps
}

# What a program gets that asks for one store and nothing else.
each_store_alone() {
    local store
    for store in redis tls etcd postgres zookeeper mysql memcached sqlite; do
        echo "$store"
        cargo clippy --locked --quiet -p distlock --no-default-features --features "$store" -- -D warnings || return 1
    done
}

# What `cargo install distlock-cli` gets: other packages of the workspace turn on features that it may lack.
command_alone() {
    local url process processes=()
    cargo build --locked --quiet -p distlock-cli || return 1
    for url in redis://127.0.0.1:1 rediss://127.0.0.1:1 postgres://127.0.0.1:1/db mysql://127.0.0.1:1/db \
        memcached://127.0.0.1:1 zookeeper://127.0.0.1:1 sqlite:/no/such/directory/locks.db; do
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

# Many more seeds than the tests above, and the hunt for each rule that is broken on purpose. Optimised: it takes longer
# to build than those few seeds take to run, and a tenth of the time of these many.
longer_simulations() {
    SEEDS=20000 OVERTAKEN=400 CROWDS=60 BIASED=60 cargo test --locked --lib \
        --config 'profile.dev.package.distlock.opt-level=3' -- --include-ignored \
        no_seed_breaks every_broken_rule rules_are_broken_on_purpose many_who_want a_waiter_goes_on_without
}

# What needs a compiler, with less right to the processors than the tests beside which it runs. The examples of the
# documentation come first: they need nothing that is not built, so that the tests have found their programs before
# cargo holds its lock for longer.
compile() {
    renice -n 10 -p "$BASHPID" >/dev/null
    step 'Examples of the documentation' cargo test --locked --doc
    step 'Lints' cargo clippy --locked --all-targets -- -D warnings
    step 'Lints without the Redis backend' \
        cargo clippy --locked -p distlock --no-default-features --all-targets -- -D warnings
    step 'Lints with each store alone' each_store_alone
    step 'Documentation' documentation
    step 'The command with its own features' command_alone
}

# The features of all packages together are all features of the library: what is linted and tested here is what
# `--all-features` would give.
build() {
    cargo test --locked --no-run && cargo test --locked --no-run --test topologies
}

# Runs a function as a job that ends with this script, and keeps its output in a file.
jobs=()
names=()
begin() {
    set -m
    "$1" >"target/$1.txt" 2>&1 &
    jobs+=($!)
    names+=("$1")
    set +m
}
trap 'for job in "${jobs[@]}"; do kill -- "-$job" 2>/dev/null || true; done' EXIT

# Waits for all jobs, and shows what each printed.
end() {
    local i status=0
    for i in "${!jobs[@]}"; do
        wait "${jobs[$i]}" || status=1
        cat "target/${names[$i]}.txt"
    done
    [ "$status" = 0 ] || exit 1
}

# Servers that hold each other for dead after a second or two of silence: everything else has less right to the
# processors.
topologies() {
    step 'Tests of several servers' scripts/run_tests.sh --test topologies
}

tests() {
    step 'Tests' nice -n 5 scripts/run_tests.sh --tests
    step 'Recorded runs and the specification' scripts/check_traces.sh
    step 'Tests against redis-py' scripts/run_tests.sh --test integration -- --ignored interop
    step 'Tests against moto' scripts/run_tests.sh --test databases -- --ignored objects
}

usually() {
    step 'Formatting' cargo fmt --all --check
    step 'Widths of comments' scripts/check_widths.sh
    step 'Build' build
    # The tests that fail beside all the rest have the processors to themselves when they are repeated.
    export LATER=target/failed.txt
    : >"$LATER"
    begin topologies
    begin compile
    begin tests
    end
    [ ! -s "$LATER" ] || step 'Tests that failed, once more' scripts/run_tests.sh --again "$LATER"
    unset LATER
}

referee() {
    cargo clippy --locked -p distlock-referee --all-targets -- -D warnings &&
        cargo clippy --locked -p distlock-referee-rust -- -D warnings && cargo test --locked -p distlock-referee
}

rarely() {
    step 'Longer simulations' longer_simulations
    step 'Recorded runs with faults and the specification' scripts/check_traces.sh --faults
    step 'Lowest versions' env LOWEST_VERSIONS_TARGET_DIR="$PWD/target/lowest" scripts/check_lowest_versions.sh
    step 'Oldest Rust' env OLDEST_RUST_TARGET_DIR="$PWD/target/oldest" scripts/check_oldest_rust.sh
    step 'Lock-free words under every order of threads' scripts/check_models.sh
    step 'The referee' referee
    step 'Packages' scripts/check_packages.sh
    step 'Public API' scripts/check_public_api.sh
    step 'Book' scripts/check_book.sh
}

step 'Set up' setup
case ${1:-} in
    --rest) rarely ;;
    --all) usually; rarely ;;
    *) usually ;;
esac

printf '\n=== Summary ===\n'
cat "$SUMMARY"
echo 'all passed'
