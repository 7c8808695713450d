#!/usr/bin/env bash
# Records runs of a real Redis and several clients of one process, each with a link of its own, and checks with TLC that
# each run is a behaviour of the specification (spec/Trace.tla). Runs that were broken by hand, and those of engines
# that break a rule, must be refused.
#
#   scripts/check_traces.sh            a few short runs
#   scripts/check_traces.sh --faults   runs with faults, of 10 000 sections and more
#
# scripts/tlc.sh says what it needs. Of a run that is refused, it prints the first line that fits no step.
# Environment: TRACE_SEED (1).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tlc.sh

out=target/traces seed=${TRACE_SEED:-1}
# With one worker, TLC prints the lines in order: TLCGet is a register of each worker.
export SPEC_HEAP=1g SPEC_WORKERS=1
# Runs are short: compiling well would take longer than it saves.
java_options='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'

# record DIRECTORY FIRST LAST [VARIABLE=VALUE...]: writes a run for each of these seeds.
record() {
    local directory=$out/$1
    rm -rf "$directory"
    mkdir -p "$directory"
    timeout 7200 env TRACES="$PWD/$directory" FIRST="$2" LAST="$3" "${@:4}" \
        cargo test --locked --quiet --lib -- --ignored --exact backend::redis::recording::runs_are_written \
        --nocapture >"$directory/recorded.txt" 2>&1 || { cat "$directory/recorded.txt" >&2; return 1; }
}

# fits RUN [HOW]: whether a run, broken by hand if it says how, is a behaviour of the specification. The first line that
# fits no step, or the promise that is broken, is in `refused`.
fits() {
    local name directory lines come
    name=trace_$(basename "$(dirname "$1")")_$(basename "$1" .jsonl)${2:-}
    directory=$out/$name
    mkdir -p "$directory"
    cp spec/DistLock.tla spec/Trace.tla "$directory"
    python3 scripts/trace.py "$1" "$directory" ${2:+"$2"} || exit 1
    if ! run_tlc "$name" -deadlock -config spec/Trace.cfg "$directory/Trace.tla"; then
        refused=$(grep -m 1 '^Error: ' "$tlc_directory/$name.txt" || tail -n 1 "$tlc_directory/$name.txt")
        # Only a promise: an error of the module or of TLC is no verdict about the run.
        [[ $refused == 'Error: Invariant '* ]] || { echo "$name: $refused" >&2; exit 1; }
        return 1
    fi
    lines=$(wc -l <"$directory/lines.jsonl")
    come=$(sed -nE 's/^<<"line", ([0-9]+)>>$/\1/p' "$tlc_directory/$name.txt" | sort -n | tail -n 1)
    [ "$come" -gt "$lines" ] && rm -r "$directory" && return
    refused="line $come of $lines: $(sed -n "${come}p" "$directory/lines.jsonl")"
    return 1
}

# accept DIRECTORY: all its runs, on as many processors as there are.
accept() {
    local run runs=() failed=0
    for run in "$out/$1"/*.jsonl; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || failed=1; done
        { fits "$run" || { printf '%s is refused: %s\n' "$run" "$refused" >&2; exit 1; }; } &
        runs+=("$!")
    done
    for run in "${runs[@]}"; do wait "$run" || failed=1; done
    [ "$failed" = 0 ] || return 1
    awk -v name="$1" '/^run [0-9]+: / { runs++; sections += $3; faults += $5; lines += $7 }
        END { printf "| %s | %d | %d | %d | %d |\n", name, sections, faults, runs, lines }' "$out/$1/recorded.txt"
}

# refuse HOW PATTERN RUN...: breaks one of these runs by hand, the first one that has what is to be broken. The refused
# line must match. A run whose refused line does not match is refused for another reason, and does not count.
refuse() {
    local how=$1 pattern=$2 run tried=$out/tried
    shift 2
    mkdir -p "$tried"
    : >"$tried/why.txt"
    for run in "$@"; do
        python3 scripts/trace.py "$run" "$tried" "$how" 2>>"$tried/why.txt" || continue
        if fits "$run" "$how"; then
            echo "$run is accepted although it was broken: $how" >&2
            return 1
        fi
        [[ $refused != *"$pattern"* ]] || { echo "$how: $refused"; return; }
        echo "$run: $refused" >>"$tried/why.txt"
    done
    cat "$tried/why.txt" >&2
    echo "no run is refused for this reason: $how" >&2
    return 1
}

# mutant NAME PATTERN: a run of engines that break this rule. What they do wrong may not happen in the first one. Runs
# whose refused line does not match are refused for another reason, and do not count. Without the mistake, these are the
# runs of `--faults`, which are accepted.
mutant() {
    local attempt
    for attempt in {1..40}; do
        record "$1" "$attempt" "$attempt" FAULTS=1 SECTIONS=100 MUTANT="$1"
        fits "$out/$1/$attempt.jsonl" && continue
        [[ $refused != *"$2"* ]] || { echo "$1, run $attempt: $refused"; return; }
    done
    echo "$1 is not found" >&2
    return 1
}

fetch_tlc
heading='| runs | sections | faults | number | lines |
|---|---|---|---|---|'
case ${1:-} in
    '')
        record calm "$seed" $((seed + 3)) SECTIONS=60
        echo "$heading"
        accept calm
        runs=("$out"/calm/*.jsonl)
        refuse swapped '"cmd": "enter"' "${runs[@]}"
        refuse doubled '"ev": "reply", "cmd": "enter"' "${runs[@]}"
        refuse kept '"ph": "idle"' "${runs[@]}"
        refuse together '"inside": 2' "${runs[@]}"
        # Of these runs, one lets its leases linger and has several tasks in a process.
        refuse repeated '"ph": "held"' "$out/calm/$((seed | 3)).jsonl" "${runs[@]}"
        mutant DeadlineFromReceipt '"ev": "reply"'
        mutant GrantDeadlineFromReceipt '"ev": "push", "cmd": "grant"'
        mutant TokenReused '"ph": "wait"'
        ;;
    --faults)
        record faults "$seed" $((seed + 35)) SECTIONS=300 FAULTS=1
        echo "$heading"
        accept faults
        # Its mistake needs a reply that comes late, while the request is cancelled: the eighth run had one.
        mutant LateAnswerNotCompensated '"ev": "reply", "cmd": "enter"'
        ;;
    *) sed -n '2,10p' "$0" >&2; exit 2 ;;
esac
