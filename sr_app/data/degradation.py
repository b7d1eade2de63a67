"""LR pictures from HR ones: MATLAB's bicubic, as DIV2K and the benchmark sets were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from sr_app.data.folders import require_fit
from sr_app.image.files import read_rgb
from sr_app.image.resize import imresize

Pixels = npt.NDArray[np.uint8]
"""A picture: (h, w, 3), RGB, 0..255."""


def crop_to_multiple(high: Pixels, scale: int) -> Pixels:
    """The top left of `high` whose height and width are multiples of `scale`; a view."""
    height, width = high.shape[:2]
    return high[: height - height % scale, : width - width % scale]


def low_from_high(high: Pixels, scale: int) -> Pixels:
    """uint8 (h // scale, w // scale, 3) from uint8 (h, w, 3): MATLAB's imresize(high, 1/scale).

    HR is cropped to a multiple of the scale first, as for the published LR files, which this
    reproduces exactly.
    """
    cropped = crop_to_multiple(high, scale)
    return np.asarray(imresize(cropped, scale=1 / scale), np.uint8)


def read_pair(high: Path, low: Path | None, scale: int) -> tuple[Pixels, Pixels]:
    """LR (h, w, 3) and HR (h * scale, w * scale, 3), both uint8; LR is made where it is None.

    Raises PictureError for a file that can't be read, DataError if the sizes don't fit.
    """
    high_pixels = read_rgb(high)
    high_size = high_pixels.shape[0], high_pixels.shape[1]
    if low is None:
        require_fit(high, high_size, None, high_size, scale)
        low_pixels = low_from_high(high_pixels, scale)
    else:
        low_pixels = read_rgb(low)
        low_size = low_pixels.shape[0], low_pixels.shape[1]
        require_fit(high, high_size, low, low_size, scale)
    return low_pixels, crop_to_multiple(high_pixels, scale)
