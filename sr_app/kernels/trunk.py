"""EDSR's whole trunk as one operator: the data stays in our layout from first to last."""

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from mindspore import Tensor, nn, ops

from sr_app.kernels.binding import operator

Memory = Literal["fast", "low"]
"""What the training keeps for its backward: of each block the input and what its ReLU gives, or the
input alone, from which the other is computed again (half of the memory, a sixth more work)."""

INPUTS = ["x", "weights", "biases", "settings"]


class FusedTrunk(nn.Cell):
    """Residual blocks, a closing convolution and a skip around all, computed by our operators.

    x (n, c, h, w), weights (2 * blocks + 1, c, c, 3, 3), biases (2 * blocks + 1, c) -> (n, c, h, w):
    x + conv(blocks(x)), a block being x + scale * conv(relu(conv(x))) whose ReLU lets `slope` of the
    gradient pass where it is off. As `Conv3x3` in all else.

    Args:
        library: what `sr_app.kernels.choice` gives.
        scale, slope: see above.
        memory: what is kept in training (`set_train`); else nothing is, and a gradient is computed
            from the start.
    """

    def __init__(self, library: Path, scale: float, slope: float, memory: Memory) -> None:
        super().__init__()
        self.settings = Tensor(np.array([scale, slope], np.float32))
        self.infer = _inference(library)
        self.train = _training(library, memory)

    def construct(self, x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        if self.training:
            return self.train(x, weights, biases, self.settings)[0]
        return self.infer(x, weights, biases, self.settings)


Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


@cache
def _backward(library: Path) -> ops.Custom:
    return operator(
        library,
        "trunk_backward",
        ["dy", "tape", "weights", "biases", "settings"],
        ["dx", "dweights", "dbiases"],
    )


@cache
def _training(library: Path, memory: Memory) -> ops.Custom:
    backward = _backward(library)

    def gradients(
        x: Tensor,
        weights: Tensor,
        biases: Tensor,
        settings: Tensor,
        out: tuple[Tensor, Tensor],
        dout: tuple[Tensor, Tensor],
    ) -> Gradients:
        dx, dweights, dbiases = backward(dout[0], out[1], weights, biases, settings)
        return dx, dweights, dbiases, ops.zeros_like(settings)

    return operator(library, f"trunk_{memory}", INPUTS, ["y", "tape"], gradients)


@cache
def _inference(library: Path) -> ops.Custom:
    backward, forward = _backward(library), _training(library, "fast")

    def gradients(
        x: Tensor, weights: Tensor, biases: Tensor, settings: Tensor, out: Tensor, dout: Tensor
    ) -> Gradients:
        _, tape = forward(x, weights, biases, settings)
        dx, dweights, dbiases = backward(dout, tape, weights, biases, settings)
        return dx, dweights, dbiases, ops.zeros_like(settings)

    return operator(library, "trunk", INPUTS, ["y"], gradients)
