"""Clipping by the global norm (Pascanu et al., 2013, algorithm 1)."""

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app import kernels
from sr_app.kernels.update import SquareSum

_square_sum = ops.MultitypeFuncGraph("square_sum")


@_square_sum.register("Tensor")
def _(gradient: Tensor) -> Tensor:
    return ops.ReduceSum()(ops.square(gradient))


class ClipByGlobalNorm(nn.Cell):
    """The factor on all gradients that brings their joint norm to at most `norm`.

    The norm is the root of the sum of squares over all gradients, in float32. Gradients within the
    bound have a factor of exactly 1. Where the norm isn't finite the factor means nothing: look at
    the norm before using it (MindSpore's `minimum` swallows nan, so the factor doesn't tell).

    Args:
        norm: the bound, above 0; None only measures.
        tensors: how many gradients there are.
    """

    def __init__(self, norm: float | None, tensors: int) -> None:
        super().__init__()
        self.norm = norm
        self.map = ops.HyperMap()
        library = kernels.choice(ms.get_context("device_target")).library
        self.square_sum = None if library is None else SquareSum(library, tensors)

    def construct(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Gradients -> (factor, their norm without it), float32 scalars."""
        if self.square_sum is None:
            norm = ops.sqrt(ops.addn(self.map(_square_sum, gradients)))
        else:
            norm = ops.sqrt(self.square_sum(gradients))
        one = ops.ones_like(norm)
        if self.norm is None:
            return one, norm
        return ops.minimum(self.norm / (norm + 1e-6), one), norm
