#!/usr/bin/env bash
# Checks the specification in spec/ with TLC.
#
#   scripts/check_spec.sh            small worlds
#   scripts/check_spec.sh --worlds   every world in full
#   scripts/check_spec.sh --rules    every rule switched off, one at a time: a counterexample must be found. Then all
#                                    rules in the same worlds, as deep as that: nothing may be found
#   scripts/check_spec.sh --all      all of this: hours
#
# One or more names behind it choose worlds, or rules. scripts/tlc.sh says what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/tlc.sh
out=$tlc_directory
mkdir -p "$out/traces"

# check NAME CONFIG MODULE: TLC's status is in `status`.
check() {
    status=0
    run_tlc "$1" -config "$2" "$3" || status=$?
}

module_of() {
    case $1 in
        lock_*) echo spec/DistLock.tla ;;
        quorum_*) echo spec/Quorum.tla ;;
        *) echo spec/Fence.tla ;;
    esac
}

# The last count of distinct states, and of steps, that TLC printed.
states_of() { sed -nE 's/.* ([0-9,]+) distinct states found.*/\1/p' "$out/$1.txt" | tail -n 1 | tr -d ,; }
depth_of() { sed -nE 's/^The depth of the complete state graph search is ([0-9]+)\..*/\1/p' "$out/$1.txt" | tail -n 1; }

failed=()

# set_constants CONFIG [CONSTANT=VALUE...]
set_constants() {
    local config=$1 change
    for change in "${@:2}"; do sed -i -E "s/^(  ${change%%=*} =) .*/\1 ${change#*=}/" "$config"; done
}

# only CONFIG NAME[|NAME...]: of the invariants, only these are checked.
only() { sed -i -E "/^INVARIANTS/,\$ { /^INVARIANTS/b; /^  ($2)\$/!d }" "$1"; }

# world NAME [CONSTANT=VALUE...]: nothing may be found. If `bound` is set: of `properties`, in that number of steps.
world() {
    local name=$1 config=$out/$1.cfg module begin=$SECONDS
    module=$(module_of "$name")
    shift
    cp "spec/$name.cfg" "$config"
    set_constants "$config" "$@"
    if [ -n "${bound:-}" ]; then
        only "$config" "$properties"
        # TLC looks for a module beside the one that extends it. It also checks the states behind the last ones, and the
        # level is that of the state before.
        cp "$module" "$out"
        printf -- '---- MODULE Bounded ----\nEXTENDS %s\nShallow == TLCGet("level") < %s - 1\n====\n' \
            "$(basename "$module" .tla)" "$bound" >"$out/Bounded.tla"
        echo 'CONSTRAINT Shallow' >>"$config"
        module=$out/Bounded.tla
    fi
    check "$name" "$config" "$module"
    if [ "$status" = 0 ]; then
        printf '| %s | %s | %s | %s s |\n' "$name${*:+ ($*)}" "$(states_of "$name")" "$(depth_of "$name")" $((SECONDS - begin))
    else
        printf '| %s | FAILED, see %s |\n' "$name${*:+ ($*)}" "$out/$name.txt"
        failed+=("$name")
    fi
}

# Of the worlds in which a rule was broken, with their constants: the steps of the longest counterexample, and what was
# violated.
declare -A longest violated

# rule RULE WORLD PROPERTY [CONSTANT=VALUE...]: without the rule, the property must be violated in that world.
rule() {
    local rule=$1 name=$2 property=$3 config=$out/without_$1.cfg found steps world
    shift 3
    world=$name${*:+ $*}
    grep -q "On(\"$rule\")" "$(module_of "$name")" || { echo "no such rule: $rule" >&2; exit 1; }
    grep -qxE "(PROPERTIES)? *$property" "spec/$name.cfg" || { echo "$name has no $property" >&2; exit 1; }
    sed -E "s/^  Broken = .*/  Broken = {\"$rule\"}/" "spec/$name.cfg" >"$config"
    only "$config" "$property"
    set_constants "$config" "$@"
    check "without_$rule" "$config" "$(module_of "$name")"
    local text=$out/without_$rule.txt
    found=$(grep -cE "^Error: Invariant $property is violated|^Error: Temporal properties were violated" "$text" || true)
    if [ "$found" = 0 ]; then
        printf '| %s | %s | NOTHING FOUND (status %s), see %s |\n' "$rule" "$name" "$status" "$text"
        failed+=("$rule")
        return
    fi
    sed -n '/^Error: The behavior up to this point/,/states generated/p' "$text" >"$out/traces/$rule.txt"
    steps=$(grep -cE '^State [0-9]+: ' "$text")
    printf '| %s | %s | %s | %s | %s |\n' "$rule" "$property" "$name${*:+ ($*)}" "$steps" "$(states_of "without_$rule")"
    # Whether a wait ends is known only in a whole world.
    if grep -q ^PROPERTIES "$config"; then steps=999; fi
    [ "${longest[$world]:-0}" -ge "$steps" ] || longest[$world]=$steps
    violated[$world]+="|$property"
}

# Rule, world, and what must be violated without it. README.md says which row of docs/protocol.md each of them is.
rules=(
    'fresh-is-a-loss lock_deleted LossIsFinal'
    'mine-extends lock_late OneHolder'
    'reply-counts-from-its-request lock_late OneHolder'
    'push-counts-from-its-grant lock_late OneHolder'
    'stale-push-is-ignored lock_pushes TokensRise'
    'renewal-never-shortens lock_clocks OneHolder'
    'repeated-leave-is-no-loss lock_links NoFalseLoss'
    'old-connection-is-ended lock_links NoOrphan'
    'leave-is-repeated lock_links NoOrphan'
    'cancel-tests-the-key lock_links NoOrphan'
    'min-hold-replaces-the-token lock_kept MinHoldHolds'
    'tokens-are-new lock_late OneHolder'
    'no-hand-on-after-leave lock_chains OneHolder'
    'no-hand-on-after-a-loss lock_chains OneHolder'
    'tokens-are-reserved lock_chains TokensRise'
    'waiter-asks-by-itself lock_wait NoLongWait'
    'heartbeat-is-shorter-than-claim lock_wait NoLongWait'
    'lingering-does-not-prolong lock_linger OneHolder'
    'no-token-serves-two-sections lock_linger TokensRise'
    'far-token-is-asked-for lock_forged TokensRise'
    'time-of-lingering-counts-once lock_wait_mute NoLongWait'
    'late-keeper-is-asked-again lock_wait_late NoLongWait'
    'wanted-is-heeded lock_wait_linger NoLongWait'
    'wanted-in-a-section-is-remembered lock_wait_linger NoLongWait'
    'no-lingering-after-a-wait lock_wait_linger NoLongWait'
    'no-lingering-unheard lock_wait_unheard NoLongWait'
    'old-set-is-deleted lock_deleted_read LossIsFinal'
    'renewal-needs-its-place lock_deleted_read LossIsFinal'
    'renewal-needs-the-marker lock_deleted_mixed LossIsFinal'
    'drift-is-counted lock_clocks OneHolder'
    'leave-compares lock_late OneHolder'
    'entry-is-removed lock_late NoEmptyPlace'
    'token-is-drawn-at-the-grant lock_late TokensRise'
    'dead-are-skipped lock_wait_dead NoLongWait'
    'waiter-has-a-timer lock_ends WaitingEnds'
    'half-is-not-enough quorum_votes OneHolder'
    'silence-is-no-consent quorum_breaks OneHolder'
    'counts-from-its-request quorum_votes OneHolder Late=2'
    'undo-on-all quorum_votes NoOrphan'
    'releases-are-repeated quorum_breaks NoOrphan'
    'young-servers-do-not-count quorum_restarts OneHolder'
    'longest-ttl-counts quorum_restarts OneHolder'
    'proposals-are-compared quorum_votes TokensRise'
    'counter-is-handed-over quorum_restarts TokensRise'
    'renewed-by-a-majority-of-this-round quorum_held KeptByMajority'
    'lost-is-released-elsewhere quorum_held NoOrphan Restarts=2 Starts=0 Renewals=1'
    'missing-is-repaired quorum_repairs NothingMissing'
    'older-is-stale fence_order InOrder'
    'equal-is-not-stale fence_order NoFalseStale'
    'check-holds-the-row fence_order InOrder'
    'check-before-body fence_order NothingOverwritten'
    'commit-before-release fence_order NothingAfterRelease'
    'lost-answer-is-unknown fence_order AnswersAreTrue'
    'result-in-the-transaction fence_once DoneOnce'
    'look-again-behind-the-check fence_once DoneOnce'
    'lock-is-asserted fence_same NothingAfterGrant'
    'assertion-keeps-the-lock fence_same NothingAfterGrant'
    'table-beside-the-lock fence_same NothingOverwritten'
)

chosen() { [ $# = 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }

small() {
    printf '| world | states | depth | time |\n|---|---|---|---|\n'
    world lock_late Starts=2
    world lock_chains
    world lock_linger Starts=2
    world lock_wait Starts=2
    world lock_wait_unheard
    world lock_ends 'May={"lose"}'
    world lock_deleted_mixed
    world lock_limited Late=0
    world lock_readers Late=0
    world quorum_votes Late=0
    world fence_order Starts=2
    world fence_once Starts=3
    world fence_same Starts=3 Begins=3
    world fence_same Once=TRUE Starts=3 Begins=3
}

worlds() {
    local config name
    printf '| world | states | depth | time |\n|---|---|---|---|\n'
    for config in spec/[a-z]*_*.cfg; do
        name=$(basename "$config" .cfg)
        if chosen "$name" "$@"; then world "$name"; fi
    done
}

all_rules() {
    # These runs are short: compiling well would take longer than it saves.
    local line java_options='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'
    printf '| without the rule | violated | world | steps | states |\n|---|---|---|---|---|\n'
    for line in "${rules[@]}"; do
        # shellcheck disable=SC2086
        if chosen "${line%% *}" "$@"; then rule $line; fi
    done
    # The control: a property that does not hold with all rules proves nothing about a rule. With several workers, a
    # state may get a higher level than that of its shortest way. Some of these runs are long, so they compile well.
    java_options=-XX:+UseSerialGC
    printf '\n| world with all rules | states | depth | time |\n|---|---|---|---|\n'
    for line in "${!longest[@]}"; do
        # shellcheck disable=SC2086
        SPEC_WORKERS=1 bound=${longest[$line]} properties=${violated[$line]#|} world $line
    done
}

fetch_tlc
case ${1:-} in
    '') small ;;
    --worlds) worlds "${@:2}" ;;
    --rules) all_rules "${@:2}" ;;
    --all) small; worlds; all_rules ;;
    *) sed -n '2,10p' "$0" >&2; exit 2 ;;
esac
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
