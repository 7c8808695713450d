#!/usr/bin/env bash
# Finds comments that are wider than 120 characters, which rustfmt leaves alone. Rows of tables may be wider: they
# cannot be broken.
set -euo pipefail
cd "$(dirname "$0")/.."

wide=$(git ls-files '*.rs' '*.lua' '*.sh' | xargs perl -CSD -ne '
    chomp;
    print "$ARGV:$.: ", length, " characters\n" if length > 120 && m{^\s*(//|--|#(?!\[))} && !m{^\s*//[/!]? \|};
    close ARGV if eof;
')
if [ -n "$wide" ]; then
    printf '%s\n' "$wide" >&2
    echo 'comments are at most 120 characters wide' >&2
    exit 1
fi
