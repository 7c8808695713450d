#!/usr/bin/env bash
# Usage: scripts/fuzz.sh [seconds] [target]...
# Feeds each fuzz target (fuzz/fuzz_targets) for so many seconds (60 if not said), one after the other. What it finds
# stays in fuzz/artifacts, what it learnt in fuzz/corpus. Needs a nightly compiler and cargo-fuzz
# (`cargo install cargo-fuzz`).
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
if [ $# -eq 0 ]; then set -- urls templates attributes replies; fi

for target in "$@"; do
    mkdir -p "fuzz/corpus/$target"
    # The second directory is only read: where to start from. An input takes microseconds: what has not ended after two
    # minutes hangs, however busy the machine is.
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -timeout=120 -dict="fuzz/seeds/$target.dict" -print_final_stats=1
done
