#!/usr/bin/env python3
"""Draws what a command prints as a picture of a narrow terminal, or records a program. Needs the package pyte.

    scripts/draw_terminal.py docs/pictures/points_redemption.svg cargo run --example points_redemption
    scripts/draw_terminal.py --frames 6 --rows 12 docs/pictures/top.svg distlock top

With --frames, the program gets the key q after that many seconds, and the picture shows its screen of each second.
"""

import argparse
import fcntl
import html
import os
import pty
import re
import select
import struct
import subprocess
import termios
import textwrap
import time

import pyte

# At the width of a small phone, 360 pixels, a letter of a terminal of 62 columns is 9 pixels high.
CELL, LINE, MARGIN = 11, 25, 14
# Of a terminal, for light and for dark pages.
COLORS = {
    "ground": ("#fcfcfd", "#0d1117"),
    "default": ("#1f2937", "#e6edf3"),
    "red": ("#b91c1c", "#f87171"),
    "green": ("#166d3b", "#4ade80"),
    "brown": ("#b45309", "#fbbf24"),
    "blue": ("#0b5cad", "#58a6ff"),
    "magenta": ("#86198f", "#e879f9"),
    "cyan": ("#0e6b7c", "#22d3ee"),
    "white": ("#1f2937", "#e6edf3"),
    "black": ("#4b5563", "#b1bac4"),
    "brightblack": ("#4b5563", "#b1bac4"),
}


def style(cell):
    color = cell.fg if cell.fg in COLORS else "default"
    marked = cell.reverse or cell.bg != "default"
    return color, cell.bold, marked


def draw(screen):
    """The cells of a screen, as pieces of text of one style."""
    pieces = []
    for row in range(screen.lines):
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        y = MARGIN + row * LINE
        start = 0
        while start < len(cells):
            end = start + 1
            while end < len(cells) and style(cells[end]) == style(cells[start]):
                end += 1
            color, bold, marked = style(cells[start])
            text = "".join(cell.data for cell in cells[start:end])
            if marked:
                x, width = MARGIN + start * CELL, (end - start) * CELL
                pieces.append(f'<rect class="{color}" x="{x}" y="{y}" width="{width}" height="{LINE}"/>')
            kind = " ".join(["ground" if marked else color] + ["bold"] * bold)
            # Blanks are not drawn, so that all columns stay in their places in any font.
            for word in re.finditer(r"\S+(?: \S+)*", text):
                x, width = MARGIN + (start + word.start()) * CELL, len(word[0]) * CELL
                place = f'x="{x}" y="{y + 18}" textLength="{width}"'
                pieces.append(f'<text class="{kind}" {place}>{html.escape(word[0])}</text>')
            start = end
    return "\n".join(pieces)


def printed(command, screen):
    """Shows a command and what it prints. Lines are broken between words."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    stream = pyte.Stream(screen)
    for place, line in enumerate([f"$ {' '.join(command)}", *output.splitlines()]):
        stream.feed("\x1b[1m" if place == 0 else "\x1b[0m")
        for piece in textwrap.wrap(line, screen.columns, break_on_hyphens=False) or [""]:
            stream.feed(piece + "\r\n")


def recorded(command, screen, seconds):
    """What a program shows in each second."""
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", screen.lines, screen.columns, 0, 0))
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, start_new_session=True)
    os.close(theirs)
    shown = []
    text = []
    second = time.monotonic() + 1
    while True:
        ready, _, _ = select.select([ours], [], [], 0.1)
        try:
            if ready:
                stream.feed(os.read(ours, 65536))
        except OSError:
            break
        if time.monotonic() >= second and len(shown) < seconds:
            shown.append(draw(screen))
            text = screen.display
            second += 1
            if len(shown) == seconds:
                os.write(ours, b"q")
    if child.wait() != 0:
        raise SystemExit(f"{command[0]} failed")
    return shown, text


def sheet(count):
    """The style sheet: colours, and the animation of the frames."""
    lines = ["text { font: 18px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace }"]
    lines.append("text.bold { font-weight: bold }")
    lines += [f".{name} {{ fill: {light} }}" for name, (light, _) in COLORS.items()]
    dark = " ".join(f".{name} {{ fill: {dark} }}" for name, (_, dark) in COLORS.items())
    lines.append(f"@media (prefers-color-scheme: dark) {{ {dark} }}")
    if count > 1:
        lines.append(f"g {{ visibility: hidden; animation: frame {count}s step-end infinite }}")
        lines.append(f"@keyframes frame {{ 0% {{ visibility: visible }} {100 / count:.2f}% {{ visibility: hidden }} }}")
        lines.append("g:last-of-type { visibility: visible }")
        lines.append("@media (prefers-reduced-motion: reduce) { g { animation: none } }")
    return "\n".join(lines)


arguments = argparse.ArgumentParser()
arguments.add_argument("--frames", type=int, default=0)
arguments.add_argument("--columns", type=int, default=62)
arguments.add_argument("--rows", type=int, default=20)
arguments.add_argument("picture")
arguments.add_argument("command", nargs=argparse.REMAINDER)
options = arguments.parse_args()
screen = pyte.Screen(options.columns, options.rows)
if options.frames:
    frames, text = recorded(options.command, screen, options.frames)
else:
    printed(options.command, screen)
    frames, text = [draw(screen)], screen.display
lines = [re.sub(r"\s+", " ", line.strip()) for line in text if line.strip()]
width = 2 * MARGIN + CELL * options.columns
height = 2 * MARGIN + LINE * (max(row for row, line in enumerate(text) if line.strip()) + 1)
groups = [
    f'<g style="animation-delay: {place - len(frames)}s">\n{frame}\n</g>' for place, frame in enumerate(frames)
]
size = f'width="{width}" height="{height}"'
svg = f"""<svg role="img" xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}">
<title>{html.escape(" ".join(options.command))}</title>
<desc>{html.escape("; ".join(lines))}</desc>
<style>
{sheet(len(frames))}
</style>
<rect class="ground" {size} rx="8"/>
{chr(10).join(groups)}
</svg>
"""
with open(options.picture, "w", encoding="utf-8") as file:
    file.write(svg)
