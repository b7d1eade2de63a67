"""Pictures to look at: comparison strips."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sr_app.image.metrics import Score
from sr_app.image.resize import imresize

GAP, MARGIN, TEXT = 8, 8, 15


@dataclass(frozen=True)
class Panel:
    """One picture of a strip, uint8 RGB (h, w, 3), with its title and what to say under it."""

    title: str
    pixels: NDArray[np.uint8]
    note: str


def told(score: Score) -> str:
    """A score as tables have it: 33.66 dB / 0.9299."""
    return f"{score.psnr:.2f} dB / {score.ssim:.4f}"


def strip(panels: Sequence[Panel]) -> NDArray[np.uint8]:
    """The panels side by side at the height of the tallest, titles and notes under each.

    Smaller panels (the low picture) are enlarged by whole pixels, so that one sees what there was.
    """
    height = max(panel.pixels.shape[0] for panel in panels)
    pictures = [_enlarged(panel.pixels, height) for panel in panels]
    width = sum(p.shape[1] for p in pictures) + GAP * (len(pictures) - 1) + 2 * MARGIN
    canvas = Image.new("RGB", (width, height + 2 * MARGIN + 3 * TEXT), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(TEXT)
    x = MARGIN
    for panel, pixels in zip(panels, pictures, strict=True):
        canvas.paste(Image.fromarray(pixels), (x, MARGIN))
        text = f"{panel.title}\n{panel.note}"
        draw.multiline_text((x, height + 1.5 * MARGIN), text, "black", font, spacing=2)
        x += pixels.shape[1] + GAP
    return np.asarray(canvas)


def detail(low: NDArray[np.uint8], high: NDArray[np.uint8], side: int) -> tuple[slice, slice]:
    """Where a `side` x `side` piece of `low` shows most: the one that bicubic restores worst.

    Returns rows and columns of `low` (the whole of a dimension that is shorter than `side`).
    """
    scale = high.shape[0] // low.shape[0]
    error = np.abs(imresize(low, scale).astype(np.float64) - high).sum(axis=2)
    rows, columns = low.shape[:2]
    by_pixel = error.reshape(rows, scale, columns, scale).sum(axis=(1, 3))
    sums = np.pad(by_pixel, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    tall, wide = min(side, rows), min(side, columns)
    window = sums[tall:, wide:] - sums[:-tall, wide:] - sums[tall:, :-wide] + sums[:-tall, :-wide]
    top, left = np.unravel_index(int(window.argmax()), window.shape)
    return slice(int(top), int(top) + tall), slice(int(left), int(left) + wide)


def _enlarged(pixels: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    times = max(1, height // pixels.shape[0])
    return pixels.repeat(times, axis=0).repeat(times, axis=1)
