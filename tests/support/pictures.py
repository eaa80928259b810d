"""Pictures for the docs: pages of the demo set, light and dark, in docs/assets/pictures.

`make pictures` takes them again. Every test run opens the same pages and checks that they still show what the picture
is about, and that the files are there and small. Pixels are not compared: they depend on the browser and its fonts.
"""

from __future__ import annotations

import os
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from playwright.sync_api import Browser, FloatRect, Page, ViewportSize

FOLDER = Path(__file__).parents[2] / "docs" / "assets" / "pictures"
LARGEST = 100_000  # bytes of a file
TAKING = os.environ.get("KARAT_TAKE_PICTURES") == "1"
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = get_args(Theme)
_SCALE = 1.5  # pixels per CSS pixel, for sharp letters
_COLOURS = 64
_MARGIN = 6

# Reads the pixels of a picture: nothing in the environment decodes PNG, but a browser does.
_PIXELS = """async picture => {
    const bitmap = await createImageBitmap(await (await fetch("data:image/png;base64," + picture)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const pixels = new Blob([context.getImageData(0, 0, bitmap.width, bitmap.height).data]);
    const reader = new FileReader();
    await new Promise(done => { reader.onload = done; reader.readAsDataURL(pixels); });
    return reader.result.split(",")[1];
}"""


class Picture(NamedTuple):
    """A part of a page."""

    name: str
    address: str  # on the dashboard, or the name of a report
    shows: str  # what has to be in it, as selectors
    top: str = "body"  # where it begins
    width: int = 1000
    height: int = 650

    def file(self, theme: Theme) -> Path:
        return FOLDER / f"{self.name}-{theme}.png"

    @property
    def size(self) -> tuple[int, int]:
        return round(self.width * _SCALE), round(self.height * _SCALE)


DASHBOARD = (
    Picture("runs", "/runs", "section[aria-labelledby=list] tbody tr", width=1200, height=960),
    Picture("trend", "/trend?metric=recall@5", "figure .legend", height=830),
    Picture("compare", "/compare?run=release&run=main", ".tiles, .card, .dots", top="#glance", height=940),
    Picture("triage", "/runs/main/triage", ".example[open] .listings", top=".example", height=520),
    Picture("query", "/query?query_id=q_000208&run=release&run=main", ".listings", top="section"),
    Picture("labelling", "/labels/pool", ".grades", height=560),
)
REPORTS = (
    Picture("report", "report", ".tiles, .facts", height=760),
    Picture("verdict", "verdict", "#gates", height=760),
)


@contextmanager
def opened(picture: Picture, browser: Browser, url: str, **cookies: str) -> Iterator[Page]:
    """The page at an address, as wide as the picture."""
    size: ViewportSize = {"width": picture.width, "height": picture.height}
    context = browser.new_context(viewport=size, device_scale_factor=_SCALE)
    context.add_cookies([{"name": name, "value": value, "url": url} for name, value in cookies.items()])
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def check(picture: Picture, page: Page) -> None:
    """The page shows what the picture is about, and the files are there. Takes it first if pictures are to be taken."""
    begins = page.locator(picture.top).first.bounding_box()
    assert begins is not None
    top = max(begins["y"] - _MARGIN, 0) if picture.top != "body" else 0
    for selector in picture.shows.split(", "):
        shown = page.locator(selector).first.bounding_box()
        assert shown is not None, selector
        assert top <= shown["y"] < top + picture.height, selector
    for theme in THEMES:
        if TAKING:
            page.emulate_media(color_scheme=theme)
            clip: FloatRect = {"x": 0, "y": top, "width": picture.width, "height": picture.height}
            taken = page.screenshot(full_page=True, clip=clip, animations="disabled")
            FOLDER.mkdir(parents=True, exist_ok=True)
            browser = page.context.browser
            assert browser is not None
            picture.file(theme).write_bytes(with_few_colours(taken, browser, picture.size))
        content = picture.file(theme).read_bytes()
        assert struct.unpack(">II", content[16:24]) == picture.size
        assert len(content) <= LARGEST


def with_few_colours(png: bytes, browser: Browser, size: tuple[int, int]) -> bytes:
    """The same picture, with a palette of its most frequent colours: about a third of the size."""
    page = browser.new_page()
    pixels = np.frombuffer(b64decode(page.evaluate(_PIXELS, b64encode(png).decode())), np.uint8)
    page.close()
    width, height = size
    found, place, count = np.unique(pixels.view(np.uint32), return_inverse=True, return_counts=True)
    colours = found.view(np.uint8).reshape(-1, 4)[:, :3]
    palette = colours[np.sort(np.argsort(-count, kind="stable")[:_COLOURS])]
    distance = ((colours[:, None].astype(int) - palette[None].astype(int)) ** 2).sum(axis=2)
    lines = distance.argmin(axis=1).astype(np.uint8)[place].reshape(height, width)
    rows = np.zeros((height, width + 1), np.uint8)  # the first byte of a row says that it is not filtered
    rows[:, 1:] = lines
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, content) for kind, content in parts)


def _part(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
