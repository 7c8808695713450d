#!/usr/bin/env python3
"""Draws what a command prints as a picture of a terminal. Needs the package rich.

    scripts/draw_terminal.py docs/pictures/points_redemption.svg cargo run --release --example points_redemption
"""

import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

picture, command = sys.argv[1], sys.argv[2:]
printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip("\n")
# The last line is empty: the picture cuts the lower part of what stands in it.
lines = [f"$ {' '.join(command)}", *printed.splitlines(), ""]
console = Console(record=True, width=max(map(len, lines)) + 1, file=sys.stderr, color_system="truecolor")
for line in lines:
    style = "bold" if line.startswith("$ ") else "green" if line.startswith("#[") else ""
    console.print(Text(line, style=style), soft_wrap=True)
svg = console.export_svg(title="distlock")
# Who looks at it loads no fonts from elsewhere.
svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
with open(picture, "w", encoding="utf-8") as file:
    file.write(svg)
