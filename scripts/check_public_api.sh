#!/usr/bin/env bash
# Compares the public API of the published crates with the lists in public-api/. A line that the API lacks breaks
# programs. `UPDATE=1` writes the lists anew.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="$PWD/target/tools/bin:$PATH"
if ! command -v cargo-public-api >/dev/null; then
    cargo install --locked --quiet --root target/tools cargo-public-api@0.52.0
fi
# Rustdoc's JSON is not stable yet: its form follows the Rust of rust-toolchain.toml.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=${PUBLIC_API_TARGET_DIR:-$PWD/target/public-api}

mkdir -p public-api
different=0
for crate in distlock-store distlock-fence distlock distlock-{etcd,memcached,mysql,postgres,sqlite,zookeeper}; do
    cargo rustdoc --locked --quiet -p "$crate" --lib --all-features -- -Z unstable-options --output-format json
    json=$CARGO_TARGET_DIR/doc/${crate//-/_}.json
    list=public-api/$crate.txt
    if [ "${UPDATE:-}" = 1 ]; then
        cargo-public-api public-api --rustdoc-json "$json" -ss >"$list"
    elif ! diff -u "$list" <(cargo-public-api public-api --rustdoc-json "$json" -ss); then
        different=1
    fi
done
if [ $different = 1 ]; then
    echo 'the public API has changed: if it should, run `UPDATE=1 scripts/check_public_api.sh`' >&2
    exit 1
fi
