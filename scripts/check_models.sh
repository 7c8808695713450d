#!/usr/bin/env bash
# Checks the words that no lock protects (the lease word, the alarm, the supervisor's idle gate), and the take-over of a
# command that its caller polls, under every order in which threads can meet at them. A cfg of our own: under
# `cfg(loom)` tokio has no sockets. In a target folder of its own, because the flag rebuilds every dependency. One after
# the other: side by side they take longer.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg distlock_loom"
export CARGO_TARGET_DIR=${MODELS_TARGET_DIR:-target/models}
cargo test --locked --quiet -p distlock --lib --release loom_ -- --test-threads=1
