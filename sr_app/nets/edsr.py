"""EDSR: Enhanced Deep Residual Networks for Single Image Super-Resolution (Lim et al., 2017).

    head -> trunk (residual blocks, closing convolution, skip) -> upsample -> tail

Baseline 16 blocks x 64 features, full 32 x 256 with residual scale 0.1 (section 3.2, table 1).
"""

from functools import partial
from typing import Literal

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app.kernels.fused import FusedUpsampler
from sr_app.nets.activation import activation
from sr_app.nets.description import MEAN_VALUES, STAGES, EDSRConfig
from sr_app.nets.layers import Computing, SubPixel, Trunk, conv3x3, fusing

SPLIT: dict[str, Literal["column", "row"]] = {
    "trunk.blocks.*.conv1": "column",
    "trunk.blocks.*.conv2": "row",
}
"""Which convolutions are split over ranks, by name: by output channels, then by input channels.

Together they hold 93 % of the full network's parameters; the rest every rank has whole."""


class EDSR(nn.Cell):
    """(n, 3, h, w) -> (n, 3, scale * h, scale * w); RGB, float32, 0 .. 255, not clamped.

    Args:
        config: its shape.
        computing: how it is computed; results are the same but for rounding.
    """

    split = SPLIT

    def __init__(self, config: EDSRConfig, computing: Computing = "fast") -> None:
        super().__init__()
        make_activation = partial(activation, config.activation, config.slope)
        self.config = config
        self.mean = Tensor(MEAN_VALUES, ms.float32)
        self.head = conv3x3(3, config.features)
        self.trunk = Trunk(
            config.features, config.blocks, config.residual_scale, make_activation, computing
        )
        self.upsample = nn.SequentialCell(
            [SubPixel(config.features, factor) for factor in STAGES[config.scale]]
        )
        self.tail = conv3x3(config.features, 3)
        library = fusing(computing)
        self.fused = None if library is None else FusedUpsampler(library)

    def construct(self, low: Tensor) -> Tensor:
        return self.enlarged(self.trunk(self.first(low)))

    def first(self, low: Tensor) -> Tensor:
        """What comes before the trunk: (n, 3, h, w) -> (n, features, h, w)."""
        return self.head(low - self.mean)

    def enlarged(self, x: Tensor) -> Tensor:
        """What comes after the trunk: (n, features, h, w) -> (n, 3, scale * h, scale * w)."""
        if self.fused is None:
            return self.tail(self.upsample(x)) + self.mean
        weights, biases = [], []
        for stage in self.upsample:  # in a comprehension MindSpore's compiler loses a gradient
            weights += [stage.conv.weight]
            biases += [stage.conv.bias]
        high = self.fused(
            x, ops.stack(weights), ops.stack(biases), self.tail.weight, self.tail.bias
        )
        return high + self.mean
