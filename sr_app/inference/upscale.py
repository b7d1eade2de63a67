"""A larger picture from a picture: what goes in (gray, alpha, depth, profile) comes out."""

import errno
import logging
import re
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sr_app.errors import PictureError
from sr_app.image.alpha import BLEED, without_hidden
from sr_app.image.picture import Banded, Picture, white
from sr_app.image.resize import imresize, imresize_bands
from sr_app.image.tiles import mirrored, plan
from sr_app.inference.model import TILE, Model, Progress, ensemble
from sr_app.settings import require_within

_log = logging.getLogger(__name__)
_OUT_OF_MEMORY = re.compile(rf"memory|bad_alloc|AOT kernel.* is {errno.ENOMEM}\b", re.IGNORECASE)
LEAST_TILE, MOST_TILE = 8, 8192


class Upscaler:
    """Enlarges pictures by a model, tile by tile: memory is bounded by the tile and by one row of
    tiles of the result, besides the picture itself.

    Args:
        model: the network; its `scale` is how far it enlarges.
        tile: side of a tile in low pixels; halved, for good, when a device runs out of memory.
        together: use the mean over the 8 flips and turns of the input (EDSR+).
    """

    def __init__(self, model: Model, tile: int = TILE, together: bool = False) -> None:
        require_within("tile", tile, LEAST_TILE, MOST_TILE)
        self.model = model
        self.tile = tile
        self._enhance = ensemble(self._enhance_tile) if together else self._enhance_tile

    def banded(
        self,
        picture: Picture,
        size: tuple[int, int] | None = None,
        progress: Progress | None = None,
    ) -> Banded:
        """The picture enlarged by the model's scale, or from there resized to (height, width).

        The work is done as the bands are taken. Colour goes through the network, alpha is enlarged
        by bicubic, and colours under what is transparent are left out of it. Gray is seen by the
        network as three equal channels, and the mean of its three outputs is kept. The depth
        stays: the network works in float32 on the range 0..255; integers are clamped, float is
        not. `progress` is told (tiles done, tiles in all).
        """
        channels, dtype = picture.pixels.shape[2], picture.pixels.dtype
        own = (self.model.scale * picture.height, self.model.scale * picture.width)
        if size in (None, own):
            bands = self._bands(picture, dtype, progress)
            return Banded((*own, channels), dtype, bands, picture.notes)
        assert size is not None
        high = self._bands(picture, None, progress)
        bands = (_finished(band, dtype) for band in imresize_bands(high, own, size))
        return Banded((*size, channels), dtype, bands, picture.notes)

    def _bands(
        self, picture: Picture, dtype: np.dtype[Any] | None, progress: Progress | None
    ) -> Iterator[NDArray[Any]]:
        """Bands of the enlarged picture, as high as a row of tiles, finished in `dtype`; or,
        without one, as they come from the network."""

        def finish(high: NDArray[np.float32]) -> NDArray[Any]:
            return high if dtype is None else _finished(high, dtype)

        scale, width = self.model.scale, picture.width
        top = done = 0
        while top < picture.height:
            bottom = top + _share(picture.height - top, self.tile)
            across = _share(width, self.tile)
            shape = (scale * (bottom - top), scale * width, picture.pixels.shape[2])
            band = np.empty(shape, dtype or np.float32)
            rest = ceil((picture.height - bottom) / self.tile) * ceil(width / across)
            for left in range(0, width, across):
                right = min(left + across, width)
                place = band[:, scale * left : scale * right]
                self._fill(place, finish, picture, slice(top, bottom), slice(left, right))
                done += 1
                if progress is not None:
                    progress(done, done + ceil((width - right) / across) + rest)
            yield band
            top = bottom

    def _fill(
        self,
        place: NDArray[Any],
        finish: Callable[[NDArray[np.float32]], NDArray[Any]],
        picture: Picture,
        rows: slice,
        columns: slice,
    ) -> None:
        """Write the enlarged (rows, columns) to their place, finished; in ever smaller pieces if
        memory runs out."""
        try:
            place[...] = finish(self._piece(picture, rows, columns))
            return
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            found = str(error)
        height, width = rows.stop - rows.start, columns.stop - columns.start
        smaller = min(self.tile, max(height, width) // 2)
        if smaller < LEAST_TILE:
            raise PictureError(
                f"the device has not even memory for a tile of {max(height, width)} pixels; "
                f"close other programs or take a smaller network ({found})"
            )
        if smaller < self.tile:
            _log.warning("the device is out of memory: going on with tiles of %d", smaller)
        self.tile, self.model = smaller, self.model.anew()
        s = self.model.scale
        for part in plan(height, width, self.tile, 0):
            y, x = part.core
            self._fill(
                place[s * y.start : s * y.stop, s * x.start : s * x.stop],
                finish,
                picture,
                _moved(y, rows.start),
                _moved(x, columns.start),
            )

    def _piece(self, picture: Picture, rows: slice, columns: slice) -> NDArray[np.float32]:
        """The enlarged (rows, columns), in 0..255; all channels."""
        scale, has_alpha = self.model.scale, picture.alpha is not None
        # Beyond the picture's edge the network would see zeros, which tint the border. It is given
        # the picture's reflection instead, as far as it looks. (Scores are taken without, as
        # published.)
        halo = self.model.config.receptive_radius + (BLEED if has_alpha else 0)
        cut = mirrored(picture.pixels, _grown(rows, halo), _grown(columns, halo))
        low = cut.astype(np.float32) * np.float32(255 / white(cut.dtype))
        core = slice(scale * halo, -scale * halo)
        color = low[..., :-1] if has_alpha else low
        if has_alpha:
            color = without_hidden(color, low[..., -1:])
        gray = color.shape[2] == 1
        high = self._enhance(np.broadcast_to(color, (*color.shape[:2], 3)))[core, core]
        if gray:
            high = high.mean(axis=2, keepdims=True)
        if not has_alpha:
            return high
        alpha = imresize(low[..., -1:], scale)[core, core]
        return np.concatenate([high, np.clip(alpha, 0, 255)], axis=2)

    def _enhance_tile(self, low: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.model.enhance(low, tile=max(low.shape[:2]))


def _finished(high: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """0..255 in float32 as the picture's own type: integers clamped and rounded, halves to even."""
    values = high * np.float32(white(dtype) / 255)
    if dtype.kind == "f":
        return values
    return np.rint(np.clip(values, 0, white(dtype))).astype(dtype)


def _is_out_of_memory(error: Exception) -> bool:
    """MindSpore tells it as RuntimeError, in words that depend on the device; our own operators by
    ENOMEM."""
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)) is not None


def _share(length: int, longest: int) -> int:
    """The first of the fewest pieces of at most `longest`, as even as can be."""
    return ceil(length / ceil(length / longest))


def _grown(span: slice, by: int) -> slice:
    return slice(span.start - by, span.stop + by)


def _moved(span: slice, by: int) -> slice:
    return slice(span.start + by, span.stop + by)
