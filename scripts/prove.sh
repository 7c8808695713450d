#!/usr/bin/env bash
# Checks most of what the documents say about safety, on this machine, and writes one page with the results:
# target/proof.md. docs/faults.md says what it leaves out.
#
#   scripts/prove.sh          about an hour on two cores
#   scripts/prove.sh --all    an evening: every world of the specification in full, more seeds, an hour of faults
#
# Each row is a claim, the command that checks it, and what came out. The output of each command is in target/proof/.
# The script continues after a failure, and fails at its end. Environment: PROOF_SEED (1), for the faults on real
# servers; SPEC_WORKERS (the number of processors), for TLC.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

seed=${PROOF_SEED:-1}
export SPEC_WORKERS=${SPEC_WORKERS:-$(nproc)}
case ${1:-} in
    '') spec=() worlds='small worlds' seeds=2000 minutes=9 ;;
    --all) spec=(--worlds) worlds='every world' seeds=20000 minutes=60 ;;
    *)
        echo 'usage: scripts/prove.sh [--all]' >&2
        exit 64
        ;;
esac

out=target/proof page=target/proof.md
rm -rf "$out"
mkdir -p "$out"
failed=0

# claim NAME SENTENCE COUNT COMMAND...: runs the command. COUNT reads its output and prints what was counted.
claim() {
    local name=$1 sentence=$2 count=$3 begin=$SECONDS result=holds counted
    shift 3
    printf '%s …\n' "$sentence"
    "$@" >"$out/$name.txt" 2>&1 || { result="**FAILED**: $out/$name.txt"; failed=1; }
    counted=$("$count" <"$out/$name.txt")
    # A command that has checked nothing proves nothing.
    [ -n "$counted" ] || [ "$result" != holds ] || { result="**NOTHING CHECKED**: $out/$name.txt"; failed=1; }
    printf '| %s | %s | %s | %s min | `%s` |\n' "$sentence" "$result" "$counted" $(((SECONDS - begin + 59) / 60)) "$*" >>"$page"
}

# What the commands print.
states() { awk -F'|' '$3 ~ /^ *[0-9]+ *$/ { all += $3; worlds++ } END { if (worlds) print worlds " worlds, " all " distinct states" }'; }
counterexamples() { awk -F'|' '$6 ~ /^ *[0-9]+ *$/ { rules++ } END { if (rules) print rules " rules, " rules " counterexamples" }'; }
recorded() { awk -F' *[|] *' '$3 ~ /^[0-9]+$/ { print $5 " runs, " $3 " sections, " $4 " faults" }'; }
passed() { awk '/^test result:/ { all += $4 } END { if (all) print all " tests" }'; }
sections() { awk -F'|' '$3 ~ /^ *[0-9]+ *$/ { all += $3; faults += $4; rows++ } END { if (all) print rows " stores, " all " sections, " faults " faults" }'; }

# Many seeds: optimised.
library=(cargo test --locked -p distlock --lib --config profile.dev.package.distlock.opt-level=3 --)
simulation=(env SEEDS="$seeds" OVERTAKEN=100 "${library[@]}" --include-ignored)

{
    echo '# What was checked'
    echo
    printf 'Commit %s, %s, %s processors, seed %s.\n\n' \
        "$(git rev-parse --short HEAD)" "$(date -u +%F)" "$(nproc)" "$seed"
    echo '| claim | result | counted | time | command |'
    echo '|---|---|---|---|---|'
} >"$page"

setup >"$out/setup.txt" 2>&1 || { cat "$out/setup.txt"; exit 1; }
claim specification "The specification keeps its promises in $worlds" states scripts/check_spec.sh "${spec[@]}"
claim rules 'Each rule of it is needed: without it, a promise is broken' counterexamples scripts/check_spec.sh --rules
claim traces 'What a real Redis and clients, each with its own link, do under faults is a behaviour of it' recorded \
    scripts/check_traces.sh --faults
claim model 'A small model of the protocol keeps them in every order of events, within bounds' passed \
    cargo test --locked -p distlock-model
claim scripts 'The scripts do what the server of the simulation does' passed \
    env SEEDS="$seeds" "${library[@]}" model_tests
claim simulation 'The engine and the quorum keep them in simulated worlds with faults' passed \
    "${simulation[@]}" no_seed_breaks
claim mutants 'The simulations find every rule that their tests break on purpose' passed \
    "${simulation[@]}" every_broken_rule rules_are_broken_on_purpose
claim contract 'Every store keeps the contract, on a real server' passed \
    cargo test --locked -p distlock-contract-tests --test contract
claim mistakes 'The contract finds every mistake of a store that makes them on purpose' passed \
    cargo test --locked -p distlock-toy-store --test contract
claim fences 'Behind the lock: no late commit, nothing twice, whatever dies when' passed \
    cargo test --locked -p distlock-fence-tests --test databases campaign
claim faults 'No two holders under random faults of servers, links, clocks and clients' sections \
    cargo run --locked --release -p distlock-tests --bin soak -- --minutes "$minutes" --seed "$seed" --long 2 --keys 8
claim referee 'The referee detects both controls, and nothing in distlock on Redis' passed \
    cargo test --locked -p distlock-referee
claim control 'The judge of these faults finds overlaps where locks exclude no process' sections \
    cargo run --locked --release -p distlock-tests --bin soak -- --sections 300 --seed "$seed" --store control

printf '\n'
cat "$page"
exit "$failed"
