"""The ranks as a mesh of two axes: along *data* they see other pictures, along *tensor* they share
one network.

Rank = place on the data axis * size of the tensor axis + place on the tensor axis: the ranks that
share a network, who speak twice a block, are neighbours on one server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from sr_app.errors import ConfigError
from sr_app.parallel import collectives

T = TypeVar("T")


@dataclass(frozen=True)
class Axis:
    """Some of the ranks: how many, this rank's place among them, the name of their group."""

    size: int = 1
    index: int = 0
    group: str = ""


@dataclass(frozen=True)
class Mesh:
    """All ranks, and this rank's place on both axes; one process alone is a mesh of one.

    `world` has all ranks, `data` those that hold the same part of the network, `tensor` those that
    see the same pictures. Methods are called by all ranks alike.
    """

    world: Axis = field(default_factory=Axis)
    data: Axis = field(default_factory=Axis)
    tensor: Axis = field(default_factory=Axis)

    @property
    def first(self) -> bool:
        """Whether this is the rank that talks and writes."""
        return self.world.index == 0

    def spread(self, count: int, work: Callable[[int], T]) -> list[T]:
        """work(0), work(1), ... work(count - 1), each done by one rank; the results on every rank.

        What goes wrong on one rank is raised on all.
        """
        done: dict[int, T] = {}
        trouble: Exception | None = None
        try:
            for number in range(self.world.index, count, self.world.size):
                done[number] = work(number)
        except Exception as error:  # the others must hear of it, or they wait
            if self.world.size == 1:
                raise
            trouble = error
        if self.world.size > 1:
            for theirs, failed in collectives.gather((done, trouble)):
                if failed is not None:
                    raise failed
                done = done | theirs
        return [done[number] for number in range(count)]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is raised on any rank."""
        if self.world.size == 1:
            return flags
        raised = collectives.highest(np.array(flags, np.int32), self.world.group)
        return tuple(bool(flag) for flag in raised)

    def wait(self) -> None:
        """Until all ranks are here."""
        self.any(False)


ALONE = Mesh()


def mesh(rank: int, size: int, tensor: int) -> Mesh:
    """The mesh of `size` ranks with `tensor` of them along the tensor axis, seen from `rank`.

    ConfigError unless `tensor` divides `size`.
    """
    require_tensor(size, tensor)
    if size == 1:
        return ALONE
    row, column = divmod(rank, tensor)
    world = Axis(size, rank, collectives.world())
    alike = range(column, size, tensor)
    together = range(row * tensor, (row + 1) * tensor)
    return Mesh(
        world,
        _axis("data", alike, row, world),
        _axis("tensor", together, column, world),
    )


def require_tensor(ranks: int, tensor: int) -> None:
    """ConfigError that lists what `parallel.tensor` can be for so many ranks."""
    if ranks % tensor:
        raise ConfigError(
            f"parallel.tensor is {tensor}, which does not divide the {ranks} ranks; "
            f"it can be {divisors(ranks)}"
        )


def divisors(number: int) -> str:
    """All that divide a number, as words."""
    return ", ".join(str(each) for each in range(1, number + 1) if number % each == 0)


def _axis(name: str, ranks: range, index: int, world: Axis) -> Axis:
    if len(ranks) == world.size:
        return world
    if len(ranks) == 1:
        return Axis()
    group = collectives.make_group(f"{name}_{ranks[0]}", ranks)
    return Axis(len(ranks), index, group)
