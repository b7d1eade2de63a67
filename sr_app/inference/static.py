"""EDSR compiled in parts: head in PyNative, trunk and upsampler as static kernels for any size, so
that the tensors between them can be looked at while what takes the time is compiled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from sr_app.inference.engines import Look, Mode, Pixels
from sr_app.nets import weights
from sr_app.nets.table import NetworkConfig, make
from sr_app.nets.weights import Arrays


@contextmanager
def pynative() -> Iterator[None]:
    """Operator by operator in here, whatever mode a training has left MindSpore in: in GRAPH_MODE
    each cell is compiled for each size, and no hook is called."""
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=mode)


class StaticTrunk:
    """A trunk as one kernel, (1, features, h, w) -> the same, compiled at its first call and for
    every height and width.

    The cell's weights can be changed in place (`weights.fill`); the kernel uses them at once.

    Args:
        trunk: the cell.
        features: its channels.
    """

    def __init__(self, trunk: nn.Cell, features: int) -> None:
        self._kernel = _static(trunk, features)

    def __call__(self, x: Tensor) -> Tensor:
        return self._kernel(x)


class _Rest(nn.Cell):
    """What comes after the trunk, as a cell: it costs 20 times more in PyNative."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)  # else the parameters would be renamed
        self.network = network

    def construct(self, x: Tensor) -> Tensor:
        return self.network.enlarged(x)


def _static(cell: nn.Cell, channels: int) -> Callable[[Tensor], Tensor]:
    cell.set_inputs(Tensor(shape=[1, channels, None, None], dtype=ms.float32))
    kernel: Callable[[Tensor], Tensor] = ms.jit(cell)
    return kernel


class StaticNetwork:
    """MindSpore's engine: see `Engine`.

    Args:
        config, arrays: the network.
        mode: `pynative` runs operator by operator, for debugging; the same values.
    """

    name = "mindspore"

    def __init__(self, config: NetworkConfig, arrays: Arrays, mode: Mode = "jit") -> None:
        self._network = make(config)
        self._network.set_train(False)
        self.fill(arrays)
        self._trunk: Callable[[Tensor], Tensor] = self._network.trunk
        self._rest: Callable[[Tensor], Tensor] = self._network.enlarged
        if mode == "jit":
            self._trunk = StaticTrunk(self._network.trunk, config.features)
            self._rest = _static(_Rest(self._network), config.features)
        self.look: Look | None = None

    def fill(self, arrays: Arrays) -> None:
        """Take other weights, in place; the compiled kernels use them from the next call on."""
        weights.fill(self._network, arrays, "these weights")

    def forward(self, low: Pixels) -> Pixels:
        """See `Engine`; `look` is told of each cell of BOUNDARY."""
        with pynative():
            x = self._told("head", self._network.first(Tensor(np.ascontiguousarray(low))))
            x = self._told("trunk", self._trunk(x))
            high: Pixels = self._rest(x).asnumpy()
        return high

    def through_trunk(self, low: Pixels) -> tuple[Pixels, Pixels]:
        """What the trunk is given for this input, and what it makes of it."""
        with pynative():
            x = self._network.first(Tensor(np.ascontiguousarray(low)))
            return x.asnumpy(), self._trunk(x).asnumpy()

    def _told(self, name: str, x: Tensor) -> Tensor:
        if self.look is not None:
            self.look(name, x.asnumpy().copy())
        return x
