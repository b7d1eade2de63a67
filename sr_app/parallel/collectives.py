"""What ranks tell one another: the only file that names a collective.

What differs between CPU and Ascend is here alone. Of MindSpore 2.10's CPU backend (`mccl`) these
work, on groups of some ranks, too: in compiled graphs `ops.AllReduce` (sum, float32), and operator
by operator `mint.distributed` (all_reduce with max, all_gather, broadcast, objects). It has no
reduce_scatter and fuses nothing. HCCL has both (`fuse`); nothing here has been run on Ascend.

Collectives carry no tags: all ranks of a group must call the same ones in the same order.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import mindspore as ms
import numpy as np
from mindspore import Tensor, communication, nn, ops
from mindspore.mint import distributed
from numpy.typing import NDArray

T = TypeVar("T")
Array = TypeVar("Array", bound=NDArray[Any])


def connect() -> tuple[int, int]:
    """Meet the other ranks: (this rank, how many there are). RuntimeError if they don't come."""
    communication.init()
    return communication.get_rank(), communication.get_group_size()


def world() -> str:
    """The name of the group of all ranks."""
    return str(communication.GlobalComm.WORLD_COMM_GROUP)


def make_group(name: str, ranks: Sequence[int]) -> str:
    """A group of some ranks, called by those alone; returns its name."""
    communication.create_group(name, list(ranks))
    return name


class Sum(nn.Cell):
    """The sum over a group, float32, any shape; to be compiled into a step. Not differentiable."""

    def __init__(self, group: str, *, fused: bool = False) -> None:
        super().__init__()
        self.reduce = ops.AllReduce(ops.ReduceOp.SUM, group)
        if fused:
            self.reduce.add_prim_attr("fusion", 1)

    def construct(self, x: Tensor) -> Tensor:
        return self.reduce(x)


def fuse(megabytes: int) -> None:
    """Let MindSpore fuse the all-reduces that are marked so; on the CPU this does nothing."""
    fusion = {"allreduce": {"mode": "size", "config": megabytes}}
    ms.set_auto_parallel_context(comm_fusion=fusion)


def gather(value: T) -> list[T]:
    """Every rank's value (anything that can be pickled), by rank."""
    values: list[Any] = [None] * communication.get_group_size()
    distributed.all_gather_object(values, value)
    return values


def gather_arrays(array: Array, group: str) -> list[Array]:
    """The arrays of a group's ranks, all of the same shape, by place in the group."""
    size = communication.get_group_size(group)
    each = [Tensor(np.zeros_like(array)) for _ in range(size)]
    distributed.all_gather(each, Tensor(array), group=group)
    return [one.asnumpy().copy() for one in each]


def broadcast(array: Array) -> Array:
    """Rank 0's array, on all ranks; theirs only say its shape and type."""
    tensor = Tensor(array)
    distributed.broadcast(tensor, 0)
    return tensor.asnumpy().copy()  # type: ignore[no-any-return]


def highest(values: NDArray[np.int32], group: str) -> NDArray[np.int32]:
    """The highest of a group's values, element by element."""
    tensor = Tensor(values)
    distributed.all_reduce(tensor, op="max", group=group)
    return tensor.asnumpy().copy()  # type: ignore[no-any-return]
