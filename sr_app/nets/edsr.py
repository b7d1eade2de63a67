"""EDSR: Enhanced Deep Residual Networks for Single Image Super-Resolution (Lim et al., 2017).

    head -> trunk (residual blocks, closing convolution, skip) -> upsample -> tail

Baseline 16 blocks x 64 features, full 32 x 256 with residual scale 0.1 (section 3.2, table 1).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from sr_app.kernels.fused import FusedUpsampler
from sr_app.nets.activation import ActivationName, activation
from sr_app.nets.layers import Computing, SubPixel, Trunk, conv3x3, fusing
from sr_app.settings import require_above_zero, require_types, require_within

VALUE_RANGE = 255.0
"""Pictures go in and come out as 0 .. 255; a checkpoint says so and is refused otherwise."""

MEAN = (0.4488, 0.4371, 0.4040)
"""Mean red, green, blue of DIV2K's training pictures, of a range of 1 (the authors' code)."""

STAGES = {2: (2,), 3: (3,), 4: (2, 2)}
"""Scale -> the factors of its sub-pixel stages."""

SPLIT: dict[str, Literal["column", "row"]] = {
    "trunk.blocks.*.conv1": "column",
    "trunk.blocks.*.conv2": "row",
}
"""Which convolutions are split over ranks, by name: by output channels, then by input channels.

Together they hold 93 % of the full network's parameters; the rest every rank has whole."""


@dataclass(frozen=True)
class EDSRConfig:
    """The shape of an EDSR.

    Args:
        scale: how many times larger the output is, per dimension.
        blocks: residual blocks in the trunk.
        features: channels of the trunk.
        residual_scale: factor on each block's residual; 0.1 keeps wide ones stable (section 3.2).
        activation: `leaky_grad_relu` (ours) or `relu` (the paper's).
        slope: the gradient's leak on the negative side; of no effect with `relu`.
    """

    scale: Literal[2, 3, 4] = 2
    blocks: int = 16
    features: int = 64
    residual_scale: float = 1.0
    activation: ActivationName = "leaky_grad_relu"
    slope: float = 0.01

    def __post_init__(self) -> None:
        require_types(self, "network.")
        require_within("network.blocks", self.blocks, 1, 1000)
        require_within("network.features", self.features, 1, 4096)
        require_above_zero("network.residual_scale", self.residual_scale)
        require_within("network.residual_scale", self.residual_scale, 0, 1)
        require_within("network.slope", self.slope, 0, 1)

    @property
    def parameters(self) -> int:
        """How many numbers the network learns: weights and biases of its convolutions."""
        outputs = [self.features] * (2 * self.blocks + 1)  # the trunk's
        outputs += [self.features * factor**2 for factor in STAGES[self.scale]]
        inner = sum((9 * self.features + 1) * count for count in outputs)
        return (9 * 3 + 1) * self.features + inner + (9 * self.features + 1) * 3

    @property
    def receptive_radius(self) -> int:
        """How many low-resolution pixels away an output pixel looks: the halo of a tile.

        Head, closing and first sub-pixel convolution 1 each, 2 a block; what comes after the first
        pixel shuffle reaches into the next low-resolution pixel, and no further, at every scale.
        """
        return 2 * self.blocks + 4


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
        self.mean = Tensor(np.reshape(MEAN, (1, 3, 1, 1)) * VALUE_RANGE, ms.float32)
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
        x = self.head(low - self.mean)
        x = self.trunk(x)
        return self._enlarged(x) + self.mean

    def _enlarged(self, x: Tensor) -> Tensor:
        if self.fused is None:
            return self.tail(self.upsample(x))
        weights, biases = [], []
        for stage in self.upsample:  # in a comprehension MindSpore's compiler loses a gradient
            weights += [stage.conv.weight]
            biases += [stage.conv.bias]
        return self.fused(
            x, ops.stack(weights), ops.stack(biases), self.tail.weight, self.tail.bias
        )


def torch_names(config: EDSRConfig) -> dict[str, str]:
    """Names of our cells with weights -> those of the authors' PyTorch code (EDSR-PyTorch)."""
    names = {"head": "head.0", "trunk.last": f"body.{config.blocks}", "tail": "tail.1"}
    for block in range(config.blocks):
        names[f"trunk.blocks.{block}.conv1"] = f"body.{block}.body.0"
        names[f"trunk.blocks.{block}.conv2"] = f"body.{block}.body.2"
    for stage in range(len(STAGES[config.scale])):  # there convolutions and shuffles alternate
        names[f"upsample.{stage}.conv"] = f"tail.0.{2 * stage}"
    return names
