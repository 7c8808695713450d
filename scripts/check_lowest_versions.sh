#!/usr/bin/env bash
# Checks that distlock, distlock-macros, distlock-fence and the stores compile, with every feature, with the lowest
# version of every direct dependency that their Cargo.toml names. Works on a copy, and does not touch the lock file
# or the target folder of this one. Needs no nightly toolchain: the resolver's option is unstable, the compiler is
# the usual one.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml rust-toolchain.toml distlock distlock-macros distlock-store fence stores "$copy"
cd "$copy"
# Only what is published: the versions that tests, benches and examples ask for are their own affair. For the same
# reason no development dependencies, which would raise the others.
sed -i -E '/^(default-)?members = /d; s/^\[workspace\]$/[workspace]\nmembers = ["distlock", "distlock-macros", "distlock-store", "fence", "stores\/*"]/' Cargo.toml
for manifest in distlock/Cargo.toml distlock-macros/Cargo.toml distlock-store/Cargo.toml fence/Cargo.toml stores/*/Cargo.toml; do
    sed -i '/^\[dev-dependencies\]/,/^\[lints\]/{/^\[lints\]/!d}' "$manifest"
done

export RUSTC_BOOTSTRAP=1 # for `-Z` below, and for nothing else
export CARGO_TARGET_DIR=${LOWEST_VERSIONS_TARGET_DIR:-$copy/target}
cargo update --quiet -Z direct-minimal-versions
unset RUSTC_BOOTSTRAP
cargo tree --locked --depth 1 --all-features -p distlock -p distlock-macros -p distlock-fence --prefix none --no-dedupe
cargo check --locked --quiet --all-features -p distlock -p distlock-macros -p distlock-fence
cargo check --locked --quiet --no-default-features -p distlock
echo 'distlock, distlock-macros, distlock-fence and the stores compile with the lowest versions that they name'
