"""A page as headless Chromium lays it out and paints it."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import zlib
from html import unescape
from pathlib import Path
from typing import NamedTuple

BROWSER = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--incognito")

# Every text of a drawing with its box; two that share a pixel cannot both be read.
_LOOK = """<script>addEventListener("load", () => {
const box = each => (({left, top, right, bottom}) => [left, top, right, bottom])(each.getBoundingClientRect());
const drawings = [...document.querySelectorAll("svg")].map(svg => ({
  box: box(svg),
  texts: [...svg.querySelectorAll("text")].map(each => [each.textContent, box(each)]),
  culprits: [...svg.querySelectorAll(".culprit")].map(box),
}));
const seen = {drawings, width: document.documentElement.scrollWidth};
document.documentElement.setAttribute("data-seen", JSON.stringify(seen)) })</script>"""

Box = tuple[float, float, float, float]


class Drawing(NamedTuple):
    """One drawing of a page.

    Attributes:
        box: left, top, right and bottom, pixels of the page, as all boxes.
        texts: each with its box.
        culprits: the nodes that are marked.
    """

    box: Box
    texts: tuple[tuple[str, Box], ...]
    culprits: tuple[Box, ...]


class Look(NamedTuple):
    """What is to be seen; `width` is what the page needs, pixels."""

    drawings: tuple[Drawing, ...]
    width: int
    picture: Picture


class Picture(NamedTuple):
    """A screenshot: rows of pixels of `depth` bytes, red, green and blue first."""

    rows: tuple[bytes, ...]
    depth: int

    def colour(self, x: float, y: float) -> str:
        """As a style sheet writes it."""
        at = round(x) * self.depth
        return "#" + self.rows[round(y)][at : at + 3].hex()


def look_at(page: str, folder: Path, *, width: int, height: int) -> Look:
    """Open a page in a window of some size, and look.

    Raises:
        CalledProcessError: Chromium ended with an error.
    """
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"{_LOOK}</body>"), encoding="utf-8")
    window = f"--window-size={width},{height}"
    dom = _run(window, "--dump-dom", file.as_uri())
    _run(window, f"--screenshot={folder / 'page.png'}", file.as_uri())
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found is not None, dom
    seen = json.loads(unescape(found[1]))
    drawings = tuple(
        Drawing(
            tuple(each["box"]),
            tuple((text, tuple(box)) for text, box in each["texts"]),
            tuple(map(tuple, each["culprits"])),
        )
        for each in seen["drawings"]
    )
    return Look(drawings, seen["width"], read_png((folder / "page.png").read_bytes()))


def _run(*arguments: str) -> str:
    done = subprocess.run([*BROWSER, *arguments], capture_output=True, check=True, text=True, timeout=120)
    return done.stdout


def read_png(data: bytes) -> Picture:
    """The pixels of a PNG of 8 bits and no interlace, as browsers write it (RFC 2083, sections 4 and 6)."""
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == b"IHDR":
            width, _, bits, kind, _, _, interlace = struct.unpack_from(">IIBBBBB", data, at + 8)
            assert (8, 0) == (bits, interlace)
            depth = {2: 3, 6: 4}[kind]
        elif data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    flat, size = zlib.decompress(packed), width * depth + 1
    rows, above = [], bytes(size - 1)
    for start in range(0, len(flat), size):
        above = _unfilter(flat[start], bytearray(flat[start + 1 : start + size]), above, depth)
        rows.append(above)
    return Picture(tuple(rows), depth)


def _unfilter(kind: int, row: bytearray, above: bytes, depth: int) -> bytes:
    """One line of pixels: what its filter has taken away is added again."""
    if kind == 0:
        return bytes(row)
    for at in range(len(row)):
        left, over = row[at - depth] if at >= depth else 0, above[at]
        corner = above[at - depth] if at >= depth else 0
        guess = left + over - corner
        nearest = min((left, over, corner), key=lambda each: abs(guess - each))
        row[at] = row[at] + (left, over, (left + over) // 2, nearest)[kind - 1] & 0xFF
    return bytes(row)
