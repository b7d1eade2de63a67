"""EDSR by our own operators alone: no MindSpore to load, nothing to compile, any size at once."""

from pathlib import Path

import numpy as np

from sr_app.inference.engines import Look, Pixels
from sr_app.kernels.direct import Operators
from sr_app.nets.description import MEAN_VALUES, STAGES
from sr_app.nets.table import NetworkConfig
from sr_app.nets.weights import Arrays


class NativeEngine:
    """The operators that MindSpore's engine has inside, called directly: the same values.

    Args:
        library: what `sr_app.kernels.choice` gives.
        config, arrays: the network.
    """

    name = "native"

    def __init__(self, library: Path, config: NetworkConfig, arrays: Arrays) -> None:
        self._operators = Operators(library)
        self._config = config
        self._mean = MEAN_VALUES.astype(np.float32)
        self.look: Look | None = None
        self.fill(arrays)

    def fill(self, arrays: Arrays) -> None:
        """See `Engine`."""
        blocks = range(self._config.blocks)
        trunk = [f"trunk.blocks.{block}.conv{which}" for block in blocks for which in (1, 2)]
        stages = [f"upsample.{stage}.conv" for stage in range(len(STAGES[self._config.scale]))]
        # The ReLU's slope, the second of the settings, is its gradient's alone.
        settings = np.array([self._config.residual_scale, 0.0], np.float32)
        self._head = _one(arrays, "head")
        self._trunk = [*_stacked(arrays, [*trunk, "trunk.last"]), settings]
        self._end = [*_stacked(arrays, stages), *_one(arrays, "tail")]

    def forward(self, low: Pixels) -> Pixels:
        """See `Engine`; `look` is told of each cell of BOUNDARY."""
        n, _, height, width = low.shape
        inner = (n, self._config.features, height, width)
        scale = self._config.scale
        x = self._told("head", self._operators("conv3x3", [low - self._mean, *self._head], inner))
        x = self._told("trunk", self._operators("trunk", [x, *self._trunk], inner))
        high = self._operators("upsampler", [x, *self._end], (n, 3, scale * height, scale * width))
        high += self._mean
        return high

    def _told(self, name: str, x: Pixels) -> Pixels:
        if self.look is not None:
            self.look(name, x)
        return x


def _stacked(arrays: Arrays, cells: list[str]) -> list[Pixels]:
    """Weights and biases of convolutions of one shape, as the fused operators take them."""
    return [
        np.stack([arrays[f"{cell}.{kind}"] for cell in cells]).astype(np.float32)
        for kind in ("weight", "bias")
    ]


def _one(arrays: Arrays, cell: str) -> list[Pixels]:
    """Weight and bias of a convolution."""
    return [array[0] for array in _stacked(arrays, [cell])]
