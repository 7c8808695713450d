#!/usr/bin/env bash
# Usage: scripts/fuzz.sh [seconds] [target]...
# Feeds each fuzz target (fuzz/fuzz_targets) for so many seconds (60 if not said), one after the other. What it finds
# stays in fuzz/artifacts, what it learnt in fuzz/corpus. Needs a nightly compiler and cargo-fuzz
# (`cargo install cargo-fuzz`).
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
if [ $# -eq 0 ]; then set -- urls templates attributes replies stores; fi

for target in "$@"; do
    mkdir -p "fuzz/corpus/$target"
    # The second directory is only read: where to start from. An input takes microseconds: what has not ended after two
    # minutes hangs, however busy the machine is. Memory is limited to what 4 KiB of input may need; what was freed is
    # kept from reuse for a while, to find late uses, and would count as well.
    ASAN_OPTIONS=quarantine_size_mb=64 cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=4096 -timeout=120 -rss_limit_mb=512 -malloc_limit_mb=64 \
        -dict="fuzz/seeds/$target.dict" -print_final_stats=1
done
