"""Clipping by the global norm (Pascanu et al., 2013, algorithm 1), on one rank or many."""

from collections.abc import Sequence

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app import kernels
from sr_app.kernels.update import SquareSum
from sr_app.parallel import collectives
from sr_app.parallel.mesh import ALONE, Mesh

_square_sum = ops.MultitypeFuncGraph("square_sum")


@_square_sum.register("Tensor")
def _(gradient: Tensor) -> Tensor:
    return ops.ReduceSum()(ops.square(gradient))


class ClipByGlobalNorm(nn.Cell):
    """The factor on all gradients that brings their joint norm to at most `norm`.

    The norm is the root of the sum of squares over all gradients, in float32. Gradients within the
    bound have a factor of exactly 1. Where the norm isn't finite the factor means nothing: look at
    the norm before using it (MindSpore's `minimum` swallows nan, so the factor doesn't tell).

    On a mesh each rank squares its share alone (see `shares`), and one all-reduce of one number
    over all ranks gives the sum: so every rank has the same norm to the bit, and all skip the same
    step where one has a gradient that isn't finite. The gradients are already averaged over the
    data axis.

    Args:
        norm: the bound, above 0; None only measures.
        sizes: how many numbers each gradient has here.
        mesh: the ranks; by default this one alone.
        split: for each gradient, whether it is one part of several along the tensor axis.
    """

    def __init__(
        self,
        norm: float | None,
        sizes: Sequence[int],
        mesh: Mesh = ALONE,
        split: Sequence[bool] = (),
    ) -> None:
        super().__init__()
        self.norm = norm
        self.map = ops.HyperMap()
        self.alone = mesh.world.size == 1
        self.mine = tuple(range(len(sizes))) if self.alone else shares(sizes, split, mesh)
        if not self.alone:
            self.sum = collectives.Sum(mesh.world.group)
        library = kernels.library()
        self.own = None
        if library is not None and self.mine:
            self.own = SquareSum(library, len(self.mine))

    def construct(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """Gradients -> (factor, their norm without it), float32 scalars."""
        square = self._sum_of_mine(gradients)
        if not self.alone:
            # when all gradients are here: collectives must come in the same order on all ranks
            square = self.sum(ops.depend(square, gradients))
        norm = ops.sqrt(square)
        one = ops.ones_like(norm)
        if self.norm is None:
            return one, norm
        return ops.minimum(self.norm / (norm + 1e-6), one), norm

    def _sum_of_mine(self, gradients: tuple[Tensor, ...]) -> Tensor:
        """The sum of the squares of this rank's share (not to be named like a function of the
        module, for which MindSpore's compiler would take it)."""
        mine: tuple[Tensor, ...] = ()
        for number in self.mine:
            mine += (gradients[number],)
        if not self.mine:
            return ops.zeros((), ms.float32)
        if self.own is not None:
            return self.own(mine)
        return ops.addn(self.map(_square_sum, mine))


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
