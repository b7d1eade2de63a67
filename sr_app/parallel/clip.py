"""Clipping by the global norm (Pascanu et al., 2013, algorithm 1), on one rank or many."""

from collections.abc import Sequence

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app.parallel import collectives
from sr_app.parallel.mesh import ALONE, Mesh

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

    On a mesh each rank squares its share alone (see `shares`), and one all-reduce of one number
    over all ranks gives the sum: so every rank has the same norm to the bit, and all skip the same
    step where one has a gradient that isn't finite. The gradients are already averaged over the
    data axis.

    Args:
        norm: the bound, above 0; None only measures.
        mesh: the ranks; by default this one alone.
        sizes: how many numbers each gradient has here.
        split: for each gradient, whether it is one part of several along the tensor axis.
    """

    def __init__(
        self,
        norm: float | None,
        mesh: Mesh = ALONE,
        sizes: Sequence[int] = (),
        split: Sequence[bool] = (),
    ) -> None:
        super().__init__()
        self.norm = norm
        self.map = ops.HyperMap()
        self.alone = mesh.world.size == 1
        if not self.alone:
            self.mine = shares(sizes, split, mesh)
            self.sum = collectives.Sum(mesh.world.group)

    def construct(self, gradients: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        """Gradients -> (clipped gradients, their norm before, a float32 scalar)."""
        if self.alone:
            norm = ops.sqrt(ops.addn(self.map(_square_sum, gradients)))
        else:
            square = ops.zeros((), ms.float32)
            for number in self.mine:
                square = square + ops.ReduceSum()(ops.square(gradients[number]))
            # when all gradients are here: collectives must come in the same order on all ranks
            norm = ops.sqrt(self.sum(ops.depend(square, gradients)))
        if self.norm is not None:
            factor = ops.minimum(self.norm / (norm + 1e-6), ops.ones_like(norm))
            gradients = self.map(ops.partial(_scale, factor), gradients)
        return gradients, norm


def shares(sizes: Sequence[int], split: Sequence[bool], mesh: Mesh) -> tuple[int, ...]:
    """Numbers of the gradients that this rank squares: each is squared by one of those who hold it.

    A replicated gradient goes to one of all ranks, each part of a split one to one of the ranks
    along the data axis; the largest first, to whoever has the least so far.
    """
    ranks = range(mesh.world.size)
    load = [0] * mesh.world.size
    mine = []
    for number in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        if split[number]:
            row = min(range(mesh.data.size), key=lambda each: load[each * mesh.tensor.size])
            chosen = [row * mesh.tensor.size + place for place in range(mesh.tensor.size)]
        else:
            chosen = [min(ranks, key=load.__getitem__)]
        for rank in chosen:
            load[rank] += sizes[number]
        if mesh.world.index in chosen:
            mine.append(number)
    return tuple(sorted(mine))
