#!/usr/bin/env bash
# Lets the referee judge the lock libraries for which it has adapters: docs/referee.md.
#
#   scripts/referee.sh                    each of them for a minute, with all faults
#   scripts/referee.sh NAME [OPTION...]   one of them, with options of `distlock-referee run`
#
# Needs Python with venv. Says which adapters do not run because Node, Java, PHP or a library of Debian is missing. What
# it installs is in target/referee.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
setup

home=target/referee
# Why the adapters in a language cannot run.
declare -A missing

mkdir -p "$home/node"
if [ ! -x "$home/venv/bin/python" ]; then python3 -m venv "$home/venv"; fi
"$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r referee/adapters/python/requirements.txt
if command -v npm >/dev/null; then
    cp referee/adapters/node/* "$home/node/"
    (cd "$home/node" && npm ci --silent --no-audit --no-fund)
else
    missing[node]='npm is missing'
fi

curator=/usr/share/java/curator-recipes.jar
if command -v javac >/dev/null && [ -e "$curator" ]; then
    javac -d "$home/java" -cp "$curator" referee/adapters/java/*.java
else
    missing[java]='a JDK or Curator is missing (default-jdk-headless libcurator-recipes-java)'
fi
if ! command -v php >/dev/null || ! php -r 'exit((int) !class_exists("Redis"));' ||
    [ ! -e /usr/share/php/Symfony/Component/Lock ] || [ ! -e /usr/share/php/Illuminate/Cache ]; then
    missing[php]='PHP or a library is missing (php-cli php-redis php-symfony-lock php-illuminate-cache php-illuminate-redis)'
fi

cargo build --locked --release -p distlock-referee -p distlock-referee-rust
referee=target/release/distlock-referee
if [ $# -gt 0 ]; then exec "$referee" run "$@"; fi
while read -r name language; do
    if [ -n "${missing[$language]:-}" ]; then
        echo "$name does not run: ${missing[$language]}" >&2
        continue
    fi
    # It fails if it finds something.
    "$referee" run "$name" --seconds 60 --report "$home/report/$name" </dev/null || true
done < <("$referee" list)
