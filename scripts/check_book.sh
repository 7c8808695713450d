#!/usr/bin/env bash
# Builds the book and follows every link of the result: mdBook does not warn of dead links. Installs mdBook if it is
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH="$PWD/target/tools/bin:$PATH"
if ! command -v mdbook >/dev/null; then
    cargo install --locked --quiet --root target/tools mdbook@0.5.4
fi
mdbook build docs/book
python3 - target/book <<'PYTHON'
import html.parser
import pathlib
import sys
import urllib.parse

root = pathlib.Path(sys.argv[1]).resolve()


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


pages = {path: Page(path) for path in root.rglob("*.html")}
dead = []
for path, page in pages.items():
    # The page of error 404 is shown below every address.
    if path.name == "404.html":
        continue
    for link in page.links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        to = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
        to = to / "index.html" if to.is_dir() else to
        name = urllib.parse.unquote(parts.fragment)
        if not to.exists() or (name and to in pages and name not in pages[to].names):
            dead.append(f"{path.relative_to(root)}: {link}")
print("\n".join(dead) or f"{len(pages)} pages, every link leads somewhere")
sys.exit(bool(dead))
PYTHON
