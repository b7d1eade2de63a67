"""Scores as tables, results as pictures to look at."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sr_app.data.benchmarks import Pair
from sr_app.image.metrics import BICUBIC, PROTOCOLS, Score
from sr_app.image.resize import imresize
from sr_app.inference.evaluate import PictureScore, SetScores

GAP, MARGIN, TEXT = 8, 8, 15


@dataclass(frozen=True)
class Panel:
    """One picture of a strip, uint8 RGB (h, w, 3), with its title and what to say under it."""

    title: str
    pixels: NDArray[np.uint8]
    note: str


def text_table(sets: Sequence[SetScores]) -> str:
    """A row a set, PSNR/SSIM of each method, the gain over bicubic, and the protocols' meaning."""
    methods = sets[0].methods
    ours = methods[-1] if methods[-1] != BICUBIC else None
    head = f"{'set':<16}{'pictures':>9}" + "".join(f"{method:>20}" for method in methods)
    lines = [head + ("    gain" if ours else "")]
    for each in sets:
        cells = "".join(f"{_short(each.mean(method)):>20}" for method in methods)
        gain = f"{_gain(each, ours):>8}" if ours else ""
        lines.append(f"{each.name:<16}{len(each.pictures):>9}{cells}{gain}")
    for protocol in sorted({each.protocol for each in sets}):
        lines.append(f"PSNR in dB / SSIM; protocol {protocol}: {PROTOCOLS[protocol].description}")
    return "\n".join(lines)


def csv_table(sets: Sequence[SetScores]) -> str:
    """A row a picture and method."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["set", "protocol", "picture", "method", "psnr", "ssim"])
    for each in sets:
        for picture, scores in each.pictures.items():
            for method, score in scores.items():
                table.writerow([each.name, each.protocol, picture, method, score.psnr, score.ssim])
    return text.getvalue()


def comparison(pair: Pair, scored: dict[str, PictureScore]) -> NDArray[np.uint8]:
    """A strip of the most telling detail: low, each method's result with its score, the truth."""
    scale = pair.high.shape[0] // pair.low.shape[0]
    rows, columns = detail(pair.low, pair.high, side=96)
    large = tuple(slice(s.start * scale, s.stop * scale) for s in (rows, columns))
    results = [
        Panel(method, each.result[large], f"{each.score.psnr:.2f} dB / {each.score.ssim:.4f}")
        for method, each in scored.items()
    ]
    return strip(
        [
            Panel("low", pair.low[rows, columns], f"1/{scale} of the size"),
            *results,
            Panel("truth", pair.high[large], pair.name),
        ]
    )


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


def _short(score: Score) -> str:
    return f"{score.psnr:.2f}/{score.ssim:.4f}"


def _gain(scores: SetScores, ours: str) -> str:
    return f"{scores.mean(ours).psnr - scores.mean(BICUBIC).psnr:+.2f}"
