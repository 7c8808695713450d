#!/usr/bin/env bash
# Checks that the published crates package: metadata, licence texts, files. `VERIFY=1` builds them from the packages,
# too.
set -euo pipefail
cd "$(dirname "$0")/.."

stores=(etcd memcached mysql postgres sqlite zookeeper)
crates=(-p distlock-macros -p distlock-store "${stores[@]/#/-pdistlock-}" -p distlock-fence -p distlock -p distlock-cli)
verify=--no-verify
if [ "${VERIFY:-}" = 1 ]; then verify=; fi
# shellcheck disable=SC2086 # no argument if it is empty
cargo publish --dry-run --locked --allow-dirty --quiet $verify "${crates[@]}"
for package in distlock-macros:README.md distlock-store: "${stores[@]/#/distlock-}" distlock-fence: distlock:README.md distlock-cli:command.md; do
    crate=${package%:*}
    files=$(cargo package --list --locked --allow-dirty --quiet -p "$crate")
    page=${package#"$crate"}
    for file in ${page#:} LICENSE-MIT LICENSE-APACHE; do
        if ! grep -qx "$file" <<<"$files"; then
            echo "the package of $crate lacks $file" >&2
            exit 1
        fi
    done
done
echo 'the packages are complete'
