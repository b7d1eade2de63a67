"""EDSR's trunk and its upsampler as one operator each: inside the data stays in our layout."""

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from mindspore import Tensor, nn, ops

from sr_app.kernels.binding import NO_SECOND, operator

Memory = Literal["fast", "low"]
"""What the training keeps for its backward: of each block the input and what its ReLU gives, or the
input alone, from which the other is computed again (half of the memory, a sixth more work)."""

TRUNK = ["x", "weights", "biases", "settings"]


class FusedTrunk(nn.Cell):
    """Residual blocks, a closing convolution and a skip around all, computed by our operators.

    x (n, c, h, w), weights (2 * blocks + 1, c, c, 3, 3), biases (2 * blocks + 1, c) -> (n, c, h, w)

    That is x + conv(blocks(x)), a block being x + scale * conv(relu(conv(x))) whose ReLU lets
    `slope` of the gradient pass where it is off. As `Conv3x3` in all else.

    Args:
        library: what `sr_app.kernels.choice` gives.
        scale, slope: see above.
        memory: what is kept in training (`set_train`); else nothing is, and a gradient is computed
            from the start.
    """

    def __init__(self, library: Path, scale: float, slope: float, memory: Memory) -> None:
        super().__init__()
        self.settings = Tensor(np.array([scale, slope], np.float32))
        self.infer = _trunk_inference(library)
        self.train = _trunk_training(library, memory)

    def construct(self, x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        if self.training:
            return self.train(x, weights, biases, self.settings)[0]
        return self.infer(x, weights, biases, self.settings)


class FusedUpsampler(nn.Cell):
    """Stages of a convolution and a pixel shuffle, and the last convolution, by our operators.

    x (n, c, h, w), weights (stages, r^2 * c, c, 3, 3), biases (stages, r^2 * c), tail (o, c, 3, 3),
    tail_bias (o) -> (n, o, r^stages * h, r^stages * w). As `Conv3x3` in all else.

    Args:
        library: what `sr_app.kernels.choice` gives.
    """

    def __init__(self, library: Path) -> None:
        super().__init__()
        self.infer = _upsampler_inference(library)
        self.train = _upsampler_training(library)

    def construct(
        self, x: Tensor, weights: Tensor, biases: Tensor, tail: Tensor, tail_bias: Tensor
    ) -> Tensor:
        if self.training:
            return self.train(x, weights, biases, tail, tail_bias)[0]
        return self.infer(x, weights, biases, tail, tail_bias)


# Each operator is made once: it has no state. One for training gives its tape as a second output;
# the gradient of one for inference computes the tape first.


Gradients = tuple[Tensor, ...]


@cache
def _trunk_backward(library: Path) -> ops.Custom:
    def second(
        dy: Tensor,
        tape: Tensor,
        weights: Tensor,
        biases: Tensor,
        settings: Tensor,
        out: tuple[Tensor, ...],
        dout: tuple[Tensor, ...],
    ) -> Gradients:
        raise NotImplementedError(NO_SECOND)

    return operator(
        library,
        "trunk_backward",
        ["dy", "tape", "weights", "biases", "settings"],
        ["dx", "dweights", "dbiases"],
        second,
    )


@cache
def _trunk_training(library: Path, memory: Memory) -> ops.Custom:
    backward = _trunk_backward(library)

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

    return operator(library, f"trunk_{memory}", TRUNK, ["y", "tape"], gradients)


@cache
def _trunk_inference(library: Path) -> ops.Custom:
    backward, forward = _trunk_backward(library), _trunk_training(library, "fast")

    def gradients(
        x: Tensor, weights: Tensor, biases: Tensor, settings: Tensor, out: Tensor, dout: Tensor
    ) -> Gradients:
        _, tape = forward(x, weights, biases, settings)
        dx, dweights, dbiases = backward(dout, tape, weights, biases, settings)
        return dx, dweights, dbiases, ops.zeros_like(settings)

    return operator(library, "trunk", TRUNK, ["y"], gradients)


UPSAMPLER = ["x", "weights", "biases", "tail", "tail_bias"]


@cache
def _upsampler_backward(library: Path) -> ops.Custom:
    def second(
        dy: Tensor,
        tape: Tensor,
        weights: Tensor,
        tail: Tensor,
        out: tuple[Tensor, ...],
        dout: tuple[Tensor, ...],
    ) -> Gradients:
        raise NotImplementedError(NO_SECOND)

    return operator(
        library,
        "upsampler_backward",
        ["dy", "tape", "weights", "tail"],
        ["dx", "dweights", "dbiases", "dtail", "dtail_bias"],
        second,
    )


@cache
def _upsampler_training(library: Path) -> ops.Custom:
    backward = _upsampler_backward(library)

    def gradients(
        x: Tensor,
        weights: Tensor,
        biases: Tensor,
        tail: Tensor,
        tail_bias: Tensor,
        out: tuple[Tensor, Tensor],
        dout: tuple[Tensor, Tensor],
    ) -> Gradients:
        dx, dweights, dbiases, dtail, dtail_bias = backward(dout[0], out[1], weights, tail)
        return dx, dweights, dbiases, dtail, dtail_bias

    return operator(library, "upsampler_training", UPSAMPLER, ["y", "tape"], gradients)


@cache
def _upsampler_inference(library: Path) -> ops.Custom:
    backward, forward = _upsampler_backward(library), _upsampler_training(library)

    def gradients(
        x: Tensor,
        weights: Tensor,
        biases: Tensor,
        tail: Tensor,
        tail_bias: Tensor,
        out: Tensor,
        dout: Tensor,
    ) -> Gradients:
        _, tape = forward(x, weights, biases, tail, tail_bias)
        dx, dweights, dbiases, dtail, dtail_bias = backward(dout, tape, weights, tail)
        return dx, dweights, dbiases, dtail, dtail_bias

    return operator(library, "upsampler", UPSAMPLER, ["y"], gradients)
