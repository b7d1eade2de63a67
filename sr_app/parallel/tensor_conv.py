"""A pair of convolutions split over the tensor axis (Shoeybi et al., 2019, Megatron-LM, section 3).

The first makes a part of the channels on each rank (`Column`), the second takes that part and sums
over the ranks (`Row`). Between them nothing is said. So a pair costs one all-reduce forward, of the
second's output, and one backward, of the gradient of the first's input.
"""

from collections.abc import Callable

import numpy as np
from mindspore import Parameter, Tensor, nn
from numpy.typing import NDArray

from sr_app.parallel import collectives
from sr_app.parallel.mesh import Axis

Kind = str
"""`column` or `row`."""

DIMENSIONS: dict[Kind, dict[str, int]] = {"column": {"weight": 0, "bias": 0}, "row": {"weight": 1}}
"""Along which dimension each parameter is cut; a weight is (outputs, inputs, 3, 3)."""

MakeConv = Callable[[int, int], nn.Cell]
"""(inputs, outputs) -> a convolution with `weight` and `bias`."""


class CopyTo(nn.Cell):
    """The same forward; backward the sum of the ranks' gradients. It holds no parameter, since a
    cell with a bprop gives its own a gradient of 0, silently."""

    def __init__(self, axis: Axis) -> None:
        super().__init__()
        self.sum = collectives.Sum(axis.group)

    def construct(self, x: Tensor) -> Tensor:
        return x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (self.sum(dout),)


class ReduceFrom(nn.Cell):
    """The sum over the ranks forward; the same backward (MindSpore's own gradient of an all-reduce
    is an all-reduce again: `size` times too large here)."""

    def __init__(self, axis: Axis) -> None:
        super().__init__()
        self.sum = collectives.Sum(axis.group)

    def construct(self, x: Tensor) -> Tensor:
        return self.sum(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout,)


class Column(nn.Cell):
    """(n, inputs, h, w), the same on all ranks -> this rank's (n, outputs / size, h, w)."""

    def __init__(self, whole: nn.Cell, axis: Axis, make: MakeConv) -> None:
        super().__init__()
        outputs, inputs = whole.weight.shape[:2]
        self.copy_to = CopyTo(axis)
        self.conv = make(inputs, outputs // axis.size)
        _take(self.conv.weight, whole.weight, "column", axis)
        _take(self.conv.bias, whole.bias, "column", axis)

    def construct(self, x: Tensor) -> Tensor:
        return self.conv(self.copy_to(x))


class Row(nn.Cell):
    """This rank's (n, inputs / size, h, w) -> (n, outputs, h, w), the same on all ranks.

    The bias is added once, after the sum.
    """

    def __init__(self, whole: nn.Cell, axis: Axis, make: MakeConv) -> None:
        super().__init__()
        outputs, inputs = whole.weight.shape[:2]
        self.conv = make(inputs // axis.size, outputs)
        _take(self.conv.weight, whole.weight, "row", axis)
        del self.conv.bias
        self.conv.bias = Tensor(np.zeros(outputs, np.float32))
        self.reduce_from = ReduceFrom(axis)
        self.bias = Parameter(Tensor(whole.bias.asnumpy().copy()), name=whole.bias.name)

    def construct(self, x: Tensor) -> Tensor:
        return self.reduce_from(self.conv(x)) + self.bias.reshape((1, -1, 1, 1))


CELLS: dict[Kind, type[Column] | type[Row]] = {"column": Column, "row": Row}


def part(whole: NDArray[np.float32], dimension: int, axis: Axis) -> NDArray[np.float32]:
    """This rank's part of an array that is cut along a dimension; `axis.size` divides it."""
    return np.ascontiguousarray(np.split(whole, axis.size, dimension)[axis.index])


def join(mine: NDArray[np.float32], dimension: int, axis: Axis) -> NDArray[np.float32]:
    """The whole array on every rank; called by all ranks of the axis."""
    return np.concatenate(collectives.gather_arrays(mine, axis.group), dimension)


def _take(parameter: Parameter, whole: Parameter, kind: Kind, axis: Axis) -> None:
    """Fill a parameter with this rank's part of the whole one."""
    name = whole.name.rpartition(".")[2]
    values = part(whole.asnumpy(), DIMENSIONS[kind][name], axis)
    parameter.set_data(Tensor(values))
