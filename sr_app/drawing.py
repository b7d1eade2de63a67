"""What `inspect` saw: as a table, a grid of feature maps, a chart by depth."""

from collections.abc import Mapping
from math import ceil

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Numbers = Mapping[str, Mapping[str, float]]
"""Layer -> what -> value, as `inspect` gives them: forward numbers, and gradients if asked for."""

COLUMNS, MOST_MAPS, MAP, GAP, TEXT = 8, 8, 96, 4, 13
BAR, HEIGHT = 26, 90
CHARTS = {
    "spread": "spread (standard deviation)",
    "zeros": "share of zeros",
    "norm": "norm of the gradient",
    "leaked": "share of the gradient that passes only through the leak",
}


def text_table(numbers: Numbers) -> str:
    """A row a layer."""
    back = any("norm" in row for row in numbers.values())
    width = max(len("layer"), *map(len, numbers))
    head = f"{'layer':<{width}}{'mean':>11}{'spread':>11}{'zeros':>8}{'dead':>10}"
    lines = [head + (f"{'gradient':>11}{'leaked':>9}" if back else "")]
    for name, row in numbers.items():
        dead = f"{row['dead']} of {row['channels']}"
        line = f"{name:<{width}}{row['mean']:>11.4g}{row['spread']:>11.4g}{row['zeros']:>8.1%}"
        lines.append(f"{line}{dead:>10}" + (_back(row) if back else ""))
    return "\n".join(lines)


def _back(row: Mapping[str, float]) -> str:
    return f"{row['norm']:>11.3g}{row['leaked']:>9.2%}"


def feature_maps(features: Mapping[str, NDArray[np.float32]]) -> NDArray[np.uint8]:
    """A row a layer: channels of (n, c, h, w), from black (least) to white (99th percentile).

    At most 8 channels and 24 layers, spread evenly over what there is.
    """
    chosen = _evenly(list(features), 24)
    row = MAP + TEXT + 2 * GAP
    canvas = Image.new("L", (MOST_MAPS * (MAP + GAP) + GAP, len(chosen) * row + GAP), 255)
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(TEXT)
    for place, name in enumerate(chosen):
        top = place * row + GAP
        draw.text((GAP, top), name, 0, font)
        for k, channel in enumerate(_evenly(list(features[name][0]), MOST_MAPS)):
            picture = Image.fromarray(_gray(channel))
            canvas.paste(picture.resize((MAP, MAP)), (GAP + k * (MAP + GAP), top + TEXT + GAP))
    return np.asarray(canvas.convert("RGB"))


def chart(numbers: Numbers) -> NDArray[np.uint8]:
    """Bars by depth, from the first layer to the last, one chart for each number there is."""
    shown = [key for key in CHARTS if all(key in row for row in numbers.values())]
    block = HEIGHT + 2 * TEXT + 3 * GAP
    width = max(len(numbers) * BAR, 480) + 2 * GAP
    canvas = Image.new("RGB", (width, len(shown) * block + TEXT + 2 * GAP), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(TEXT)
    for place, key in enumerate(shown):
        values = [row[key] for row in numbers.values()]
        most = max(map(abs, values)) or 1.0
        top = place * block + GAP
        draw.text((GAP, top), f"{CHARTS[key]}, up to {most:.3g}", "black", font)
        floor = top + TEXT + GAP + HEIGHT
        for k, value in enumerate(values):
            left = GAP + k * BAR
            high = floor - round(HEIGHT * abs(value) / most)
            draw.rectangle((left + 3, high, left + BAR - 3, floor), "steelblue")
            draw.text((left + 5, floor + 2), str(k + 1), "gray", font)
    first, last = next(iter(numbers)), list(numbers)[-1]
    told = f"1: {first}, {len(numbers)}: {last}"
    draw.text((GAP, len(shown) * block), told, "black", font)
    return np.asarray(canvas)


def _evenly(things: list[NDArray[np.float32]] | list[str], most: int) -> list:  # type: ignore[type-arg]
    step = ceil(len(things) / most)
    return things[::step]


def _gray(channel: NDArray[np.float32]) -> NDArray[np.uint8]:
    least, most = float(channel.min()), float(np.percentile(channel, 99))
    span = most - least or float(np.ptp(channel)) or 1.0
    bright = np.clip((channel - least) * (255 / span), 0, 255)
    gray: NDArray[np.uint8] = np.rint(bright).astype(np.uint8)
    return gray
