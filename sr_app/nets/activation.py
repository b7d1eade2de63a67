"""Activations. Ours is a ReLU whose gradient leaks on the negative side."""

from typing import Literal

from mindspore import Tensor, nn, ops

ActivationName = Literal["leaky_grad_relu", "relu"]


class LeakyGradReLU(nn.Cell):
    """ReLU forward; backward the gradient of a leaky ReLU.

    forward:  y = max(x, 0), as nn.ReLU to the last bit (MindSpore's CPU ReLU gives 0 for nan)
    backward: dx = dout where x > 0, slope * dout elsewhere (x = 0 and nan included)

    A unit that is off still learns, so none is dead for good, while the function that is computed,
    exported and compiled stays a plain ReLU. Any shape; float16 and float32; PyNative, `ms.jit` and
    GRAPH_MODE; second order (the gradient is linear in dout, the mask is constant).

    Args:
        slope: the leak, at least 0; 0 gives nn.ReLU's gradient, 1 a straight-through one.
    """

    def __init__(self, slope: float = 0.01) -> None:
        super().__init__()
        if slope < 0:
            raise ValueError(f"slope must be at least 0, got {slope}")
        self.slope = slope

    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        # A product with a mask is twice as fast here as ops.select. `out` stands in for x, so that
        # x need not be kept; jit wants a tuple, and all three names in the signature.
        on = (out > 0).astype(dout.dtype)
        return (dout * (on * (1 - self.slope) + self.slope),)


def slope_of(cell: nn.Cell) -> float:
    """How much of the gradient passes where an activation of this module is off."""
    return cell.slope if isinstance(cell, LeakyGradReLU) else 0.0


def activation(name: ActivationName, slope: float) -> nn.Cell:
    """The activation cell of that name; `slope` is for `leaky_grad_relu` alone."""
    return {"leaky_grad_relu": lambda: LeakyGradReLU(slope), "relu": nn.ReLU}[name]()
