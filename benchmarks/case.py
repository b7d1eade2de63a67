"""What is measured, a training step or a picture: settings and inputs, the same for every side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from interleave import Take
from numpy.typing import NDArray

from sr_app.image.tiles import apply_tiled

SCALE: Final = 2
STAGES = {2: (2,), 3: (3,), 4: (2, 2)}  # of EDSR's upsampler, by scale
Pixels = NDArray[np.float32]


def multiply_adds(blocks: int, features: int, scale: int, output: float = 1280 * 720) -> float:
    """Of an EDSR for so many pixels of output, as the field counts them: sums written out."""
    pixels = output / scale**2
    total = pixels * 9 * (3 * features + (2 * blocks + 1) * features**2)
    for factor in STAGES[scale]:
        total += pixels * 9 * (features * factor) ** 2
        pixels *= factor**2
    return total + pixels * 9 * 3 * features


def forward_operations(pixels: int, blocks: int, features: int) -> float:
    """Of so many low pixels through EDSR x2, as sums written out take them: 2 for a product."""
    return 2 * multiply_adds(blocks, features, SCALE, pixels * SCALE**2)


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
        """Of a step, as sums written out take them: forward, two backwards."""
        pixels = self.batch * self.patch**2
        first = 2.0 * 9 * pixels * 3 * self.features  # the picture's own gradient isn't taken
        return 3 * forward_operations(pixels, self.blocks, self.features) - first

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
        return forward_operations(self.height * self.width, self.blocks, self.features)

    def input(self) -> NDArray[np.float32]:
        """(1, 3, height, width), 0..255: noise."""
        shape = (1, 3, self.height, self.width)
        return np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)

    def calls(self, forward: Callable[[Pixels], Pixels], output: str) -> Take:
        """Calls of `through`; the first leaves its result as a file."""

        def once() -> float:
            result = self.through(forward)
            if not Path(output).exists():
                np.save(output, result)
            return float(result[0, 0, 0, 0])

        return lambda steps: [once() for _ in range(steps)]

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
