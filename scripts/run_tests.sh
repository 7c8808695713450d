#!/usr/bin/env bash
# Runs `cargo test` with the given arguments, and each test that failed once more, alone.
# Servers, clients and other tests share the processors. On a slow machine one of them may be too late for a limit that
# a test has to set. Such a test passes alone, and its name is printed. A test that fails again fails the run.
set -uo pipefail
most=10 # more than these are no accident

output=$(mktemp)
trap 'rm -f "$output"' EXIT
cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$output"
[ "${PIPESTATUS[0]}" = 0 ] && exit

mapfile -t failed < <(sed -nE 's/^test (\S+)( - should panic)? \.\.\. FAILED$/\1/p' "$output")
# Without the package: the test programs keep the features that they were built with.
mapfile -t targets < <(sed -nE 's/^    `(-p \S+ )?(--.*)`$/\2/p' "$output" | sort -u)
# A test program that a signal has ended has not named its test. Without a name, the build has failed.
if grep -q '(signal: ' "$output" || [ ${#targets[@]} = 0 ] || [ ${#failed[@]} = 0 ] || [ ${#failed[@]} -gt $most ]; then
    exit 1
fi

printf '\nfailed, and run once more, alone:\n'
printf '    %s\n' "${failed[@]}"
passed=0
for target in "${targets[@]}"; do
    # shellcheck disable=SC2086 # words of cargo
    RUST_TEST_THREADS=1 cargo test --locked $target -- --exact "${failed[@]}" >"$output" 2>&1
    status=$?
    cat "$output"
    [ "$status" = 0 ] || exit 1
    passed=$((passed + $(awk '/^test result: ok/ { all += $4 } END { print all + 0 }' "$output")))
done
[ "$passed" -ge ${#failed[@]} ] || exit 1
printf '        passed alone only: %s\n' "${failed[@]}" | tee -a "${SUMMARY:-/dev/null}"
