"""What an EDSR is, as numbers and names: no MindSpore, so that other engines need not load it.

EDSR: Enhanced Deep Residual Networks for Single Image Super-Resolution (Lim et al., 2017).
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sr_app.settings import require_above_zero, require_types, require_within

VALUE_RANGE = 255.0
"""Pictures go in and come out as 0 .. 255; a checkpoint says so and is refused otherwise."""

MEAN = (0.4488, 0.4371, 0.4040)
"""Mean red, green, blue of DIV2K's training pictures, of a range of 1 (the authors' code)."""

MEAN_VALUES = np.reshape(MEAN, (1, 3, 1, 1)) * VALUE_RANGE
"""The same as values of a batch (n, 3, h, w): what is taken off at first and put back at last."""

STAGES = {2: (2,), 3: (3,), 4: (2, 2)}
"""Scale -> the factors of its sub-pixel stages."""

ActivationName = Literal["leaky_grad_relu", "relu"]


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

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter by its name, in the order of the network's cells."""
        convolutions = {"head": (3, self.features)}
        for block in range(self.blocks):
            for conv in ("conv1", "conv2"):
                convolutions[f"trunk.blocks.{block}.{conv}"] = (self.features, self.features)
        convolutions["trunk.last"] = (self.features, self.features)
        for stage, factor in enumerate(STAGES[self.scale]):
            convolutions[f"upsample.{stage}.conv"] = (self.features, self.features * factor**2)
        convolutions["tail"] = (self.features, 3)
        shapes: dict[str, tuple[int, ...]] = {}
        for cell, (inputs, outputs) in convolutions.items():
            shapes[f"{cell}.weight"] = (outputs, inputs, 3, 3)
            shapes[f"{cell}.bias"] = (outputs,)
        return shapes


def torch_names(config: EDSRConfig) -> dict[str, str]:
    """Names of our cells with weights -> those of the authors' PyTorch code (EDSR-PyTorch)."""
    names = {"head": "head.0", "trunk.last": f"body.{config.blocks}", "tail": "tail.1"}
    for block in range(config.blocks):
        names[f"trunk.blocks.{block}.conv1"] = f"body.{block}.body.0"
        names[f"trunk.blocks.{block}.conv2"] = f"body.{block}.body.2"
    for stage in range(len(STAGES[config.scale])):  # there convolutions and shuffles alternate
        names[f"upsample.{stage}.conv"] = f"tail.0.{2 * stage}"
    return names


def plain_relu(config: EDSRConfig) -> EDSRConfig:
    """The same function without the leak in its gradient: what is exported."""
    return replace(config, activation="relu")
