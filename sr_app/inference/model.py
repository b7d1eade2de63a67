"""A trained network, ready to use: from a checkpoint, with the settings that lie in it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from sr_app.image.tiles import apply_tiled, plan
from sr_app.nets import weights
from sr_app.nets.table import NetworkConfig, make
from sr_app.nets.weights import Arrays, Weights

TILE = 192
"""Side of a tile's core in low-resolution pixels: it bounds the memory that a picture takes."""

Progress = Callable[[int, int], None]
Enhance = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""RGB (h, w, 3) -> (scale * h, scale * w, 3), float32, 0..255, not clamped."""


class Model:
    """A network that enlarges pictures of any size; compiled once, for all sizes, at first use.

    Args:
        config: the network's shape.
        arrays: its weights; see `fill`.
        name: what to call it in tables and messages.
    """

    def __init__(self, config: NetworkConfig, arrays: Arrays, name: str) -> None:
        self.config = config
        self.name = name
        network = make(config)
        network.set_train(False)
        weights.fill(network, arrays, name)
        network.set_inputs(Tensor(shape=[1, 3, None, None], dtype=ms.float32))
        self._network = network
        self._kernel = ms.jit(network)

    @classmethod
    def load(cls, path: Path, name: str | None = None) -> "Model":
        """The network of a checkpoint, by default named like the file; raises CheckpointError."""
        read: Weights = weights.read(path)
        return cls(read.config, read.arrays, name or path.stem)

    @property
    def scale(self) -> int:
        """How many times larger the output is, per dimension."""
        return self.config.scale

    @property
    def parameters(self) -> int:
        """How many numbers the network has learned."""
        return self.config.parameters

    def fill(self, arrays: Arrays) -> None:
        """Take other weights, in place; the compiled kernel uses them from the next call on."""
        weights.fill(self._network, arrays, self.name)

    def anew(self) -> "Model":
        """The same network built again: after an error MindSpore's compiled kernel is broken."""
        return Model(self.config, weights.gather(self._network), self.name)

    def enhance(
        self, low: NDArray[np.float32], progress: Progress | None = None, tile: int = TILE
    ) -> NDArray[np.float32]:
        """RGB (h, w, 3) -> (scale * h, scale * w, 3); float32, 0..255, not clamped.

        Worked tile by tile with the receptive radius as halo: equal to the whole picture at once
        within 1e-3 of 255 (sums are taken in another order when a size is no multiple of 8).
        `progress` is told (tiles done, tiles in all). tile: side of a tile's core, low pixels.
        """
        halo = self.config.receptive_radius
        total = len(plan(low.shape[0], low.shape[1], tile, halo))
        done = itertools.count(1)

        def enhance_tile(piece: NDArray[np.float32]) -> NDArray[np.float32]:
            high = self._enhance_tile(piece)
            if progress is not None:
                progress(next(done), total)
            return high

        return apply_tiled(low, enhance_tile, scale=self.scale, tile=tile, halo=halo)

    def _enhance_tile(self, low: NDArray[np.float32]) -> NDArray[np.float32]:
        batch = np.ascontiguousarray(low.transpose(2, 0, 1)[None], np.float32)
        high: NDArray[np.float32] = self._kernel(Tensor(batch)).asnumpy()
        return np.moveaxis(high[0], 0, 2)


def ensemble(enhance: Enhance) -> Enhance:
    """The mean over the 8 flips and turns of the input (EDSR, section 3.5, EDSR+)."""

    def enhance_all(low: NDArray[np.float32]) -> NDArray[np.float32]:
        total: NDArray[np.float32] | None = None
        for turns in range(4):
            for flipped in (False, True):
                seen = np.rot90(low[:, ::-1] if flipped else low, turns)
                back = np.rot90(enhance(seen), -turns)
                back = back[:, ::-1] if flipped else back
                total = back.copy() if total is None else total + back
        assert total is not None
        return total / 8

    return enhance_all


def to_uint8(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Clamp to 0..255 and round, halves to even."""
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)
