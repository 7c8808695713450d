#!/usr/bin/env bash
# Checks that the published crates package: metadata, licence texts, files, and that they build from the package alone.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(-p distlock-macros -p distlock -p distlock-cli)
cargo publish --dry-run --locked --allow-dirty --quiet "${crates[@]}"
for package in distlock-macros:README.md distlock:README.md distlock-cli:command.md; do
    crate=${package%:*}
    files=$(cargo package --list --locked --allow-dirty --quiet -p "$crate")
    for file in "${package#*:}" LICENSE-MIT LICENSE-APACHE; do
        if ! grep -qx "$file" <<<"$files"; then
            echo "the package of $crate lacks $file" >&2
            exit 1
        fi
    done
done
echo 'the packages are complete and build'
