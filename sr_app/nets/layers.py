"""The parts that networks are built from. Tensors are (n, c, h, w)."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from mindspore import Tensor, nn, ops

from sr_app import kernels
from sr_app.kernels.conv3x3 import Conv3x3
from sr_app.kernels.fused import FusedTrunk, Memory
from sr_app.nets.activation import slope_of

_log = logging.getLogger(__name__)

Computing = Literal["plain", "fast", "low"]
"""How a network is computed: `plain`, cell by cell, as looking inside and exporting need it; or its
trunk and its upsampler by one operator of ours each, where these can be had, keeping in training
what makes the backward `fast`, or half of that: `low`."""


def conv3x3(inputs: int, outputs: int) -> nn.Cell:
    """A 3x3 convolution with bias, stride 1, zero padding 1.

    (n, inputs, h, w) -> (n, outputs, h, w)

    The one place where the project makes a convolution: ours where it can be had, else MindSpore's.
    Parameters and values are the same, to rounding.
    """
    library = kernels.library()
    if library is not None:
        return Conv3x3(inputs, outputs, library)
    return nn.Conv2d(inputs, outputs, 3, pad_mode="pad", padding=1, has_bias=True)


def fusing(computing: Computing) -> Path | None:
    """The library of our fused operators where they are to be used, else None."""
    library = None if computing == "plain" else kernels.library()
    if computing == "low" and library is None:
        _log.warning("memory is low, but has no effect: our own operators are not used here")
    return library


def initialise(network: nn.Cell, seed: int) -> None:
    """Fill all weights and biases as PyTorch's Conv2d does, so that published recipes carry over.

    Uniform within +-1 / sqrt(fan in), weights and biases alike; every tensor draws from a stream of
    its own, named by its place, so the values depend on the seed and the network's shape alone.
    """
    parameters = network.parameters_dict()
    for place, (name, parameter) in enumerate(parameters.items()):
        weight = parameters[name.rpartition(".")[0] + ".weight"]
        bound = 1 / np.sqrt(np.prod(weight.shape[1:]))
        values = np.random.default_rng([seed, place]).uniform(-bound, bound, parameter.shape)
        parameter.set_data(Tensor(values.astype(np.float32)))


class ResidualBlock(nn.Cell):
    """x + scale * conv(activation(conv(x))), no normalisation (EDSR, section 3.1, figure 2c)."""

    def __init__(self, features: int, scale: float, activation: Callable[[], nn.Cell]) -> None:
        super().__init__()
        self.conv1 = conv3x3(features, features)
        self.activation = activation()
        self.conv2 = conv3x3(features, features)
        self.scale = scale

    def construct(self, x: Tensor) -> Tensor:
        residual = self.conv2(self.activation(self.conv1(x)))
        if self.scale != 1.0:
            residual = residual * self.scale
        return x + residual


class Trunk(nn.Cell):
    """Residual blocks and their closing convolution, with a skip around all (EDSR, figure 3)."""

    def __init__(
        self,
        features: int,
        blocks: int,
        scale: float,
        activation: Callable[[], nn.Cell],
        computing: Computing = "fast",
    ) -> None:
        super().__init__()
        self.blocks = nn.SequentialCell(
            [ResidualBlock(features, scale, activation) for _ in range(blocks)]
        )
        self.last = conv3x3(features, features)
        library = fusing(computing)
        self.fused = None
        if library is not None:
            memory: Memory = "low" if computing == "low" else "fast"
            self.fused = FusedTrunk(library, scale, slope_of(activation()), memory)

    def construct(self, x: Tensor) -> Tensor:
        if self.fused is None:
            return x + self.last(self.blocks(x))
        weights, biases = [], []
        for block in self.blocks:
            weights += [block.conv1.weight, block.conv2.weight]
            biases += [block.conv1.bias, block.conv2.bias]
        weights += [self.last.weight]
        biases += [self.last.bias]
        return self.fused(x, ops.stack(weights), ops.stack(biases))


class SubPixel(nn.Cell):
    """One stage of upsampling: convolution, then pixel shuffle (ESPCN, section 2.2).

    (n, features, h, w) -> (n, features, factor * h, factor * w)
    """

    def __init__(self, features: int, factor: int) -> None:
        super().__init__()
        self.conv = conv3x3(features, features * factor**2)
        self.factor = factor

    def construct(self, x: Tensor) -> Tensor:
        return ops.pixel_shuffle(self.conv(x), self.factor)
