"""A network laid over a mesh: the one place where networks and parallel meet.

A network says in its `split` table which of its convolutions are cut over the tensor axis; here
they are replaced by their parts. Whole arrays are what is saved and read: `join` and `cut` go
between them and a rank's own.
"""

import zlib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn
from numpy.typing import NDArray

from sr_app.errors import ConfigError, TrainingError
from sr_app.nets.layers import conv3x3
from sr_app.parallel import collectives, tensor_conv
from sr_app.parallel.mesh import Axis, Mesh, divisors, require_tensor
from sr_app.training.config import RunConfig

Arrays = dict[str, NDArray[Any]]


class Layout:
    """Which parameters of a network are cut, along which dimension, over which mesh.

    Made with the cut: the network's convolutions are replaced in place.

    Args:
        network: with its weights, and a `split` table: pattern of names -> `column` or `row`.
        mesh: the ranks.
    """

    def __init__(self, network: nn.Cell, mesh: Mesh) -> None:
        self.mesh = mesh
        self.cut_along: dict[str, int] = {}
        if mesh.tensor.size > 1:
            for name, kind in matching(network, network.split).items():
                _replace(network, name, kind, mesh.tensor)
                for parameter, dimension in tensor_conv.DIMENSIONS[kind].items():
                    self.cut_along[f"{name}.{parameter}"] = dimension

    def is_cut(self, name: str) -> bool:
        """Whether a parameter, or an array that follows one, is but this rank's part."""
        return self._dimension(name) is not None

    def cut(self, whole: Mapping[str, NDArray[Any]]) -> Arrays:
        """Whole arrays -> this rank's parts; what is cut must be divisible."""
        axis = self.mesh.tensor
        parts = {}
        for name, array in whole.items():
            dimension = self._dimension(name)
            parts[name] = array if dimension is None else tensor_conv.part(array, dimension, axis)
        return parts

    def join(self, parts: Mapping[str, NDArray[Any]]) -> Arrays:
        """This rank's parts -> whole arrays, on every rank; called by all."""
        whole = {}
        for name, array in parts.items():
            dimension = self._dimension(name)
            axis = self.mesh.tensor
            whole[name] = array if dimension is None else tensor_conv.join(array, dimension, axis)
        return whole

    def require_equal(self, parameters: list[Parameter], step: int) -> None:
        """TrainingError that names the first parameter in which ranks that should agree don't.

        A checksum of each parameter's bytes is compared: the highest of all ranks with the lowest.
        """
        if self.mesh.world.size == 1:
            return
        for axis, cut in ((self.mesh.world, False), (self.mesh.data, True)):
            names = [p.name for p in parameters if self.is_cut(p.name) == cut]
            if not names or axis.size == 1:
                continue
            sums = np.array(
                [zlib.crc32(p.asnumpy()) for p in parameters if self.is_cut(p.name) == cut],
                np.uint32,
            ).view(np.int32)
            both = collectives.highest(np.concatenate([sums, ~sums]), axis.group)
            differ = both[: len(sums)] != ~both[len(sums) :]
            if differ.any():
                raise TrainingError(
                    f"step {step}: the ranks have drifted apart: {names[int(differ.argmax())]} is "
                    f"not the same on all ({differ.sum()} of {len(names)} parameters differ). A "
                    "device or a network card computes wrongly, or the ranks run other versions; "
                    "the run's folder keeps the last save"
                )

    def _dimension(self, name: str) -> int | None:
        """Adam's moments and the average (`adam.first.NAME`, ...) are cut as NAME is."""
        while name:
            if name in self.cut_along:
                return self.cut_along[name]
            name = name.partition(".")[2]
        return None


def matching(network: nn.Cell, split: Mapping[str, str]) -> dict[str, str]:
    """The cells that a split table means, by name -> `column` or `row`."""
    return {
        name: kind
        for name, _ in network.cells_and_names()
        for pattern, kind in split.items()
        if fnmatchcase(name, pattern)
    }


def require_shares(config: RunConfig, ranks: int) -> None:
    """ConfigError that lists what would do, unless so many ranks can share the run evenly."""
    tensor, size, features = config.parallel.tensor, config.batch.size, config.network.features
    require_tensor(ranks, tensor)
    if features % tensor:
        raise ConfigError(
            f"parallel.tensor is {tensor}, which does not divide the {features} channels of "
            f"network.features; it can be {divisors(features)}"
        )
    if size % (ranks // tensor):
        raise ConfigError(
            f"batch.size is {size}, which {ranks // tensor} ranks can't share evenly (--devices "
            f"{ranks}, parallel.tensor {tensor}); the ranks that see other pictures can be "
            f"{divisors(size)}"
        )
    if config.parallel.fusion == "mindspore" and ms.get_context("device_target") == "CPU":
        raise ConfigError(
            "parallel.fusion is mindspore, which fuses nothing on the CPU: take buckets"
        )


def _replace(network: nn.Cell, name: str, kind: str, axis: Axis) -> None:
    """Put this rank's part in place of a convolution, its parameters under the same names."""
    path = name.split(".")
    owner = network
    for step in path[:-1]:
        owner = owner[int(step)] if step.isdecimal() else getattr(owner, step)
    whole = getattr(owner, path[-1])
    cell = tensor_conv.CELLS[kind](whole, axis, conv3x3)
    setattr(owner, path[-1], cell)
    for parameter in cell.get_parameters():
        parameter.name = f"{name}.{parameter.name.rpartition('.')[2]}"
