#!/usr/bin/env bash
# Checks that the published crates compile with the oldest Rust that Cargo.toml names (`rust-version`), with the
# versions that cargo chooses for a program on this Rust. Works on a copy without the lock file: tests and benches may
# need a later Rust, and with it later versions of what they share with the published crates.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
rustup run "$oldest" rustc --version 2>/dev/null || rustup toolchain install "$oldest" --profile minimal

crates=(distlock-macros distlock-store fence distlock distlock-cli)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml stores "${crates[@]}" "$copy"
cd "$copy"
sed -i -E '/^(default-)?members = /d; s/^\[workspace\]$/[workspace]\nmembers = ["distlock-macros", "distlock-store", "fence", "stores\/*", "distlock", "distlock-cli"]/' Cargo.toml
for crate in "${crates[@]}" stores/*; do
    sed -i '/^\[dev-dependencies\]/,/^\[lints\]/{/^\[lints\]/!d}; /^\[\[test\]\]/,$d' "$crate/Cargo.toml"
done

export CARGO_TARGET_DIR=${OLDEST_RUST_TARGET_DIR:-$copy/target}
cargo "+$oldest" check --quiet --no-default-features -p distlock
cargo "+$oldest" check --quiet --all-features -p distlock-macros -p distlock-fence -p distlock
cargo "+$oldest" check --quiet -p distlock-cli
echo "${crates[*]} compile with Rust $oldest"
