#!/usr/bin/env bash
# Lets the referee judge the lock libraries for which it has adapters: docs/referee.md.
#
#   scripts/referee.sh                    each of them for a minute, with all faults, and a table of the results
#   scripts/referee.sh NAME [OPTION...]   one of them, with options of `distlock-referee run`
#
# Says which adapters do not run because Python, Node, Java, PHP or a library of Debian is missing. What it installs is
# in target/referee.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
setup

home=target/referee
# Why the adapters in a language cannot run.
declare -A missing

{ [ -x "$home/venv/bin/python" ] || python3 -m venv "$home/venv"; } &&
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r referee/adapters/python/requirements.txt || missing[python]='python3-venv is missing, or pip failed'
mkdir -p "$home/node"
cp referee/adapters/node/* "$home/node/"
(cd "$home/node" && npm ci --silent --no-audit --no-fund) || missing[node]='npm is missing, or failed'
if ! command -v php >/dev/null || ! php -r 'exit((int) !class_exists("Redis"));' ||
    [ ! -e /usr/share/php/Symfony/Component/Lock ] || [ ! -e /usr/share/php/Illuminate/Cache ]; then
    missing[php]='PHP or a library is missing (php-cli php-redis php-symfony-lock php-illuminate-cache php-illuminate-redis)'
fi

# Not in one command: the features of one would build what both need again.
cargo build --locked --release -p distlock-referee
cargo build --locked --release -p distlock-referee-rust
referee=target/release/distlock-referee
why=$("$referee" compile "$home/java") || missing[java]="Java or Curator is missing: $why"
if [ $# -gt 0 ]; then exec "$referee" run "$@"; fi
rm -rf "$home/report"
while read -r name language; do
    if [ -n "${missing[$language]:-}" ]; then
        echo "$name does not run: ${missing[$language]}" >&2
        continue
    fi
    case $name in
        # The controls. A mutex excludes within a process only.
        mutex) options=(--processes 1 --tasks 4) ;;
        ignores-ttl) options=(--hold 8000) ;;
        *) options=() ;;
    esac
    # It fails if it finds something.
    "$referee" run "$name" --seconds 60 --seed 7 "${options[@]}" --report "$home/report/$name" </dev/null || true
done < <("$referee" list)
"$referee" table "$home/report"
