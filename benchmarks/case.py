"""The training step that is measured: settings and inputs, the same for every side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

SCALE: Final = 2


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
