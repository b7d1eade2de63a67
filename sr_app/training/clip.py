"""Clipping by the global norm (Pascanu et al., 2013, algorithm 1)."""

from mindspore import Tensor, nn, ops

_square_sum = ops.MultitypeFuncGraph("square_sum")
_scale = ops.MultitypeFuncGraph("scale")


@_square_sum.register("Tensor")
def _(gradient: Tensor) -> Tensor:
    return ops.ReduceSum()(ops.square(gradient))


@_scale.register("Tensor", "Tensor")
def _(factor: Tensor, gradient: Tensor) -> Tensor:
    return gradient * factor


class ClipByGlobalNorm(nn.Cell):
    """Scale all gradients by one factor so that their joint norm is at most `norm`.

    The norm is the root of the sum of squares over all gradients, in float32. Gradients within the
    bound are multiplied by exactly 1. Where the norm isn't finite neither is the result: look at
    the norm before using it (MindSpore's `minimum` swallows nan, so the factor doesn't tell).

    Args:
        norm: the bound, above 0; None only measures.
    """

    def __init__(self, norm: float | None) -> None:
        super().__init__()
        self.norm = norm
        self.map = ops.HyperMap()

    def construct(self, gradients: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        """Gradients -> (clipped gradients, their norm before, a float32 scalar)."""
        norm = ops.sqrt(ops.addn(self.map(_square_sum, gradients)))
        if self.norm is not None:
            factor = ops.minimum(self.norm / (norm + 1e-6), ops.ones_like(norm))
            gradients = self.map(ops.partial(_scale, factor), gradients)
        return gradients, norm
