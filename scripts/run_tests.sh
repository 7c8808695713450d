#!/usr/bin/env bash
# Runs `cargo test` with the given arguments, and each test that failed once more, alone.
# Servers, clients and other tests share the processors. On a slow machine one of them may be too late for a limit that
# a test has to set. Such a test passes alone, and its name is printed. A test that fails again fails the run.
#
#   scripts/run_tests.sh ARGUMENT...    with LATER (a file): adds the tests that failed to it, and does not repeat them
#   scripts/run_tests.sh --again FILE   runs the tests that are in this file
set -uo pipefail
most=60 # more than these are no accident

output=$(mktemp)
trap 'rm -f "$output"' EXIT

# again TARGETS NAMES: runs these tests, one at a time. Commas separate the targets, and blanks the names.
again() {
    local name target status passed=0 targets names
    IFS=, read -r -a targets <<<"$1"
    read -r -a names <<<"$2"
    printf '\nfailed, and run once more, alone:\n'
    printf '    %s\n' "${names[@]}"
    for name in "${names[@]}"; do
        for target in "${targets[@]}"; do
            # shellcheck disable=SC2086 # words of cargo
            cargo test --locked $target -- --exact --include-ignored "$name" >"$output" 2>&1
            status=$?
            cat "$output"
            # The first one that fails again fails the run: each may wait for minutes until it gives up.
            [ "$status" = 0 ] || return 1
            passed=$((passed + $(awk '/^test result: ok/ { all += $4 } END { print all + 0 }' "$output")))
        done
    done
    [ "$passed" -ge ${#names[@]} ] || return 1
    printf '        passed alone only: %s\n' "${names[@]}" | tee -a "${SUMMARY:-/dev/null}"
}

if [ "${1:-}" = --again ]; then
    mapfile -t runs <"$2"
    for run in "${runs[@]}"; do again "${run%%|*}" "${run#*|}" || exit 1; done
    exit
fi

cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$output"
[ "${PIPESTATUS[0]}" = 0 ] && exit

mapfile -t failed < <(sed -nE 's/^test (\S+)( - should panic)? \.\.\. FAILED$/\1/p' "$output")
# Without the package: the test programs keep the features that they were built with.
mapfile -t targets < <(sed -nE 's/^    `(-p \S+ )?(--.*)`$/\2/p' "$output" | sort -u)
# A test program that has ended early has not named its test. Without a name, the build has failed.
read -r programs tests < <(awk '/^test result: FAILED/ { p++; t += $6 } END { print p + 0, t + 0 }' "$output")
listed=$(grep -cE '^    `(-p \S+ )?(--.*)`$' "$output")
if [ "$programs" != "$listed" ] || [ "$tests" != ${#failed[@]} ] || [ "$tests" = 0 ] || [ "$tests" -gt $most ]; then
    exit 1
fi

joined=$(IFS=, && echo "${targets[*]}")
if [ -n "${LATER:-}" ]; then
    echo "$joined|${failed[*]}" >>"$LATER"
    printf '\nfailed, and run once more, alone, when everything else has ended:\n'
    printf '    %s\n' "${failed[@]}"
    exit
fi
again "$joined" "${failed[*]}"
