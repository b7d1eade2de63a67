"""What is measured, a training step or a picture: settings and inputs, the same for every side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sr_app.image.tiles import apply_tiled

SCALE: Final = 2
Pixels = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """EDSR-baseline x2 as `configs/edsr_baseline_x2.yaml` trains it, at some batch size.

    Args:
        batch: pairs of patches.
        patch: side of the low-resolution patch in pixels.
        blocks, features, slope: of the network and its leaky gradient.
        learning_rate, clip_norm, average: of Adam, the clip, the moving average of the weights.
    """

    batch: int
    patch: int = 48
    blocks: int = 16
    features: int = 64
    slope: float = 0.01
    learning_rate: float = 1e-4
    clip_norm: float = 50.0
    average: float = 0.999

    @property
    def operations(self) -> float:
        """Of a step, as sums written out take them: 2 for a product; forward, two backwards."""
        features, pixels = self.features, self.batch * self.patch**2
        trunk = (2 * self.blocks + 1) * features**2
        ends = 3 * features + SCALE**2 * features**2 + SCALE**2 * 3 * features
        products = 9 * pixels * (trunk + ends)
        first = 9 * pixels * 3 * features  # the picture's own gradient isn't taken
        return 2 * (3 * products - first)

    def inputs(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(batch, 3, patch, patch) and twice as large, 0..255: noise, and the same enlarged."""
        shape = (self.batch, 3, self.patch, self.patch)
        low = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
        return low, low.repeat(SCALE, axis=2).repeat(SCALE, axis=3)


def quick(batch: int) -> Case:
    """A network of a few thousand weights, to see that a script works."""
    return Case(batch=batch, patch=12, blocks=2, features=8)


@dataclass(frozen=True)
class Forward:
    """One picture through EDSR-baseline x2.

    Args:
        height, width: of the low picture.
        tile: side of the tiles' cores, or None for all at once.
        blocks, features: of the network.
    """

    height: int
    width: int
    tile: int | None = None
    blocks: int = 16
    features: int = 64

    @property
    def flops(self) -> float:
        """Arithmetic operations of a plain computation, without what tiles overlap."""
        inner = (2 * self.blocks + 1 + SCALE**2) * self.features**2
        outer = (1 + SCALE**2) * 3 * self.features  # head, and the tail on the larger picture
        return 2.0 * 9 * (inner + outer) * self.height * self.width

    def input(self) -> NDArray[np.float32]:
        """(1, 3, height, width), 0..255: noise."""
        shape = (1, 3, self.height, self.width)
        return np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)

    def through(self, forward: Callable[[Pixels], Pixels]) -> Pixels:
        """The input through a network (n, 3, h, w) -> (n, 3, 2h, 2w), in tiles where asked for."""
        if self.tile is None:
            return forward(self.input())
        joined = apply_tiled(
            self.input()[0].transpose(1, 2, 0),
            lambda tile: forward(np.ascontiguousarray(tile.transpose(2, 0, 1)[None]))[0].transpose(
                1, 2, 0
            ),
            scale=SCALE,
            tile=self.tile,
            halo=2 * self.blocks + 4,
        )
        return joined.transpose(2, 0, 1)[None]
