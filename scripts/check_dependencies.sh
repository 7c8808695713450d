#!/usr/bin/env bash
# Checks the licences, sources and versions of all dependencies of the published crates, and known weaknesses where the
# database of advisories can be reached. Needs cargo-deny (`cargo install cargo-deny`).
set -euo pipefail
cd "$(dirname "$0")/.."

for crate in distlock-macros fence distlock distlock-cli; do
    cargo deny --manifest-path "$crate/Cargo.toml" check --hide-inclusion-graph licenses bans sources
done
cargo deny --manifest-path distlock/Cargo.toml check advisories || {
    echo 'the advisories were not checked, or there are some: see above' >&2
    exit 1
}
