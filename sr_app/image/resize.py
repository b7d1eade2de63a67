"""MATLAB's imresize (bicubic, antialiased), exact to the bit: how low pictures are made."""

from collections.abc import Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_Scalar = TypeVar("_Scalar", bound=np.generic)
_KERNEL_WIDTH = 4
_GREATEST = {1: 255, 2: 65535}  # value of an unsigned integer, by its bytes
_COLUMNS = 512  # columns in float64 at a time: bounds memory, and a block stays in the cache


def imresize(
    pixels: NDArray[_Scalar],
    scale: float | None = None,
    size: tuple[int, int] | None = None,
) -> NDArray[_Scalar]:
    """Resize pixels as MATLAB's `imresize(pixels, scale | size, 'bicubic')` does.

    pixels: (h, w) or (h, w, c), uint8, uint16, float32 or float64, any range; returned with the
    same dtype. Give either `scale` (the result is ceil(h * scale) x ceil(w * scale)) or `size`
    (height, width). The kernel is Keys' with a = -0.5, stretched when shrinking; the border is
    mirrored, its outermost pixel included. The dimension with the smaller scale goes first, and
    integers are rounded (half up) and clipped after each of the two passes, as MATLAB does.
    Raises ValueError for what can't be resized.
    """
    if (scale is None) == (size is None):
        raise ValueError(f"give either scale or size, got scale={scale}, size={size}")
    if pixels.ndim not in (2, 3) or pixels.size == 0:
        raise ValueError(f"pixels must be (h, w) or (h, w, c) and not empty, got {pixels.shape}")
    if pixels.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
        raise ValueError(f"pixels must be uint8, uint16, float32 or float64, got {pixels.dtype}")
    height, width = pixels.shape[:2]
    if size is not None:
        scales = (size[0] / height, size[1] / width)
    else:
        assert scale is not None
        scales = (scale, scale)
        size = (ceil(height * scale), ceil(width * scale))
    if min(*size, *scales) <= 0:
        raise ValueError(f"the result must have pixels, got scale={scale}, size={size}")
    for dimension in sorted((0, 1), key=lambda d: scales[d]):
        weights = _weights(pixels.shape[dimension], size[dimension], scales[dimension])
        pixels = _resize_dimension(pixels, dimension, weights)
    return pixels


def imresize_bands(
    bands: Iterable[NDArray[np.float32]], shape: tuple[int, int], size: tuple[int, int]
) -> Iterator[NDArray[np.float32]]:
    """What `imresize(pixels, size=size)` gives of float32 pixels that come from the top in bands.

    bands: (rows, w, c), together `shape` (h, w). Yields bands that are together the result. Holds
    no more rows than one result row asks for, and a band.
    """
    scales = (size[0] / shape[0], size[1] / shape[1])
    down, across = (_weights(shape[d], size[d], scales[d]) for d in (0, 1))
    columns_first = scales[1] < scales[0]
    starts = down.indptr[:-1]
    needed = np.maximum.accumulate(np.maximum.reduceat(down.indices, starts)) + 1
    spared = np.minimum.accumulate(np.minimum.reduceat(down.indices, starts)[::-1])[::-1]
    held: NDArray[np.float32] | None = None
    top = done = 0  # the first row that is held; result rows that are done
    for band in bands:
        band = _resize_dimension(band, 1, across) if columns_first else band
        held = band if held is None else np.concatenate([held, band])
        ready = int(np.searchsorted(needed, top + len(held), side="right"))
        if ready == done:
            continue
        result = _resize_dimension(held, 0, down[done:ready, top : top + len(held)])
        yield result if columns_first else _resize_dimension(result, 1, across)
        done = ready
        first = int(spared[done]) if done < size[0] else top + len(held)
        held, top = held[first - top :], first


def _cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Keys' cubic kernel with a = -0.5 (IEEE ASSP 29-6, 1981, eq. 15)."""
    x = np.abs(x)
    inner = 1.5 * x**3 - 2.5 * x**2 + 1
    outer = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x <= 1, inner, np.where(x <= 2, outer, 0.0))


def _weights(length: int, new_length: int, scale: float) -> "csr_array":
    """The (new_length, length) banded matrix of one pass: MATLAB's `contributions`."""
    stretch = min(scale, 1.0)
    width = _KERNEL_WIDTH / stretch
    # MATLAB's formula with x and u counted from 1, kept as it is: the rounding matters.
    u = np.arange(1, new_length + 1) / scale + 0.5 * (1 - 1 / scale)
    left = np.floor(u - width / 2).astype(np.int64)
    taps = left[:, None] + np.arange(ceil(width) + 2)
    weights = stretch * _cubic(stretch * (u[:, None] - taps))
    weights /= weights.sum(axis=1, keepdims=True)
    mirrored = np.concatenate([np.arange(length), np.arange(length)[::-1]])
    taps = mirrored[(taps - 1) % (2 * length)]
    used = weights != 0
    starts = np.concatenate([[0], used.sum(axis=1).cumsum()])
    from scipy.sparse import csr_array  # a quarter of a second, for what seldom resizes

    return csr_array((weights[used], taps[used], starts), shape=(new_length, length))


def _resize_dimension(
    pixels: NDArray[_Scalar], dimension: int, weights: "csr_array"
) -> NDArray[_Scalar]:
    """One pass: multiply every line along the dimension by the weights; same dtype."""
    lines = np.moveaxis(pixels, dimension, 0)
    columns = np.ascontiguousarray(lines).reshape(len(lines), -1)
    result = np.empty((weights.shape[0], columns.shape[1]), pixels.dtype)
    for start in range(0, columns.shape[1], _COLUMNS):
        block = slice(start, start + _COLUMNS)
        values = weights @ columns[:, block].astype(np.float64)
        if pixels.dtype.kind == "u":  # rounds half up once the cast cuts the fraction off
            np.clip(values + 0.5, 0, _GREATEST[pixels.dtype.itemsize], out=values)
        result[:, block] = values
    lines = result.reshape(-1, *lines.shape[1:])
    return np.ascontiguousarray(np.moveaxis(lines, 0, dimension))
