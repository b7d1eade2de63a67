"""Cut a picture into tiles with a halo, work on each, and join: memory is bounded by the tile."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tile:
    """A piece of a picture, in pixels of the low picture.

    core: rows and columns that this tile answers for; all tiles' cores cover the picture once.
    outer: the core and the halo around it, clipped at the picture's border.
    """

    core: tuple[slice, slice]
    outer: tuple[slice, slice]


def plan(height: int, width: int, tile: int, halo: int) -> list[Tile]:
    """Tiles with cores of at most `tile` pixels a side, as even as can be, row by row.

    With the halo clipped and not padded, a network's zero padding appears at the picture's own
    border only, where it belongs. Raises ValueError for sizes that are not positive.
    """
    if min(height, width, tile) < 1 or halo < 0:
        raise ValueError(
            f"height, width and tile must be positive and halo not negative, "
            f"got {height}, {width}, {tile} and {halo}"
        )
    return [
        Tile((rows, columns), (_grown(rows, halo, height), _grown(columns, halo, width)))
        for rows in _spans(height, tile)
        for columns in _spans(width, tile)
    ]


def mirrored(pixels: NDArray[Any], rows: slice, columns: slice) -> NDArray[Any]:
    """Cut out of pixels (h, w, ...), which go on beyond each edge as their own reflection.

    The outermost pixel is repeated, as in MATLAB's imresize and NumPy's "symmetric". The slices may
    begin below 0 and end beyond the picture, by any number. Returns a copy.
    """
    places = []
    for span, length in zip((rows, columns), pixels.shape, strict=False):
        there_and_back = np.concatenate([np.arange(length), np.arange(length)[::-1]])
        places.append(there_and_back[np.arange(span.start, span.stop) % (2 * length)])
    return pixels[np.ix_(*places)]


def apply_tiled(
    pixels: NDArray[Any],
    function: Callable[[NDArray[Any]], NDArray[Any]],
    *,
    scale: int,
    tile: int,
    halo: int,
) -> NDArray[Any]:
    """Apply `function` tile by tile; the same as applying it to the whole if its reach is <= halo.

    pixels: (h, w, c), any dtype. function: (h, w, c) -> (h * scale, w * scale, d) for any h and w,
    each result pixel depending on low pixels at most `halo` away. Returns (h * scale, w * scale, d)
    in the function's dtype. Raises ValueError if the function's result has another size.
    """
    height, width = pixels.shape[:2]
    joined: NDArray[Any] | None = None
    for piece in plan(height, width, tile, halo):
        cut = pixels[piece.outer]
        result = function(cut)
        if result.shape[:2] != (cut.shape[0] * scale, cut.shape[1] * scale):
            raise ValueError(f"a tile {cut.shape} at scale {scale} became {result.shape}")
        if joined is None:
            joined = np.empty((height * scale, width * scale, *result.shape[2:]), result.dtype)
        inside = [
            _scaled(slice(core.start - outer.start, core.stop - outer.start), scale)
            for core, outer in zip(piece.core, piece.outer, strict=True)
        ]
        place = [_scaled(core, scale) for core in piece.core]
        joined[tuple(place)] = result[tuple(inside)]
    assert joined is not None
    return joined


def _spans(length: int, longest: int) -> list[slice]:
    """Cut 0..length into the fewest pieces of at most `longest`, as even as can be."""
    count = ceil(length / longest)
    return [slice(a, b) for a, b in pairwise(i * length // count for i in range(count + 1))]


def _grown(span: slice, halo: int, length: int) -> slice:
    return slice(max(span.start - halo, 0), min(span.stop + halo, length))


def _scaled(span: slice, scale: int) -> slice:
    return slice(span.start * scale, span.stop * scale)
