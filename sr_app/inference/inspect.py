"""Looking inside a network: features at named layers, and what flows back to them.

Results of the cells at the compiled parts' boundaries (`head`, `trunk`) are seen with the network
compiled. A layer inside one of them needs the network cell by cell in PyNative: it is
switched for the time of looking, and `Taps.note` says so. (Under `ms.jit` MindSpore ignores hooks
without a word, and the hooks of cells with a `bprop` of their own everywhere.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from numpy.typing import NDArray

from sr_app.errors import ConfigError
from sr_app.image.resize import imresize
from sr_app.inference.engines import BOUNDARY, Look, Pixels
from sr_app.inference.model import Model
from sr_app.inference.native import NativeEngine
from sr_app.inference.static import StaticNetwork, pynative
from sr_app.nets import weights
from sr_app.nets.activation import slope_of
from sr_app.nets.table import make

Features = dict[str, Pixels]
"""Layer -> its last result, (n, channels, h, w)."""

DEAD = 1e-6  # of the layer's largest value; a channel that varies by no more is dead


@dataclass
class Taps:
    """What is seen: the layers that are looked at, their features, and how the network was run."""

    wanted: tuple[str, ...]
    features: Features = field(default_factory=dict)
    note: str = ""
    undo: list[Callable[[], Any]] = field(default_factory=list)

    def remove(self) -> None:
        """Look no longer; the features stay."""
        while self.undo:
            self.undo.pop()()


@dataclass(frozen=True)
class Forward:
    """A layer's result in numbers: mean, standard deviation, share of zeros, channels in all and
    those that are dead: the same everywhere, as one that is always off."""

    mean: float
    spread: float
    zeros: float
    channels: int
    dead: int


@dataclass(frozen=True)
class Backward:
    """The gradient at a layer's result: its norm, and of what passes on through an activation the
    share (of the sum of sizes) that passes only through its leak; 0 for other layers."""

    norm: float
    leaked: float


def layers_of(model: Model, patterns: Sequence[str]) -> list[str]:
    """The layers that match any pattern (`trunk.blocks.*.activation`), in the network's order;
    ConfigError for a pattern that matches none."""
    names = _names(model)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"no layer matches {pattern!r}; there are {', '.join(names[:8])} ... {names[-1]} "
                f"({len(names)}); * stands for any part of a name"
            )
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def tap(model: Model, patterns: Sequence[str], tell: Look | None = None) -> Taps:
    """From now on the model's calls leave their features in the result's `features`, until its
    `remove` is called.

    `tell` hears of each (layer, features) as it comes. Raises ConfigError for a pattern without a
    layer and for an engine that can't be looked into.
    """
    engine = model.engine
    if not isinstance(engine, (StaticNetwork, NativeEngine)):
        raise ConfigError(
            f"only our own engines can be looked into, not {engine.name} or an exported file; "
            "take a checkpoint and --engine mindspore or native"
        )
    wanted = layers_of(model, patterns)
    taps = Taps(tuple(wanted))

    def look(name: str, x: Pixels) -> None:
        if name in wanted:
            taps.features[name] = x
            if tell is not None:
                tell(name, x)

    inside = [name for name in wanted if name not in BOUNDARY]
    if not inside:
        engine.look = look
        taps.undo.append(lambda: setattr(engine, "look", None))
        return taps
    taps.note = (
        f"{inside[0]} lies inside a compiled part: the network runs in PyNative, cell by cell, "
        "while it is looked at"
    )
    plain = _Plain(model)
    taps.undo += [handle.remove for handle in plain.watch(wanted, look)]
    taps.undo.append(lambda: setattr(model, "engine", engine))
    model.engine = plain
    return taps


@contextmanager
def tapped(model: Model, patterns: Sequence[str], tell: Look | None = None) -> Iterator[Taps]:
    """`tap` for the time that this is open. RuntimeError at the end if some of the layers were
    reached and others not."""
    taps = tap(model, patterns, tell)
    try:
        yield taps
    finally:
        taps.remove()
    if taps.features and (missed := set(taps.wanted) - set(taps.features)):
        raise RuntimeError(f"these layers were never reached: {', '.join(sorted(missed))}")


def forward_numbers(features: Pixels) -> Forward:
    """A layer's result in numbers."""
    by_channel = features.swapaxes(0, 1).reshape(features.shape[1], -1)
    least = DEAD * float(np.abs(features).max())
    return Forward(
        mean=float(features.mean()),
        spread=float(features.std()),
        zeros=float((features == 0).mean()),
        channels=features.shape[1],
        dead=int((np.ptp(by_channel, axis=1) <= least).sum()),
    )


def gradients(
    model: Model, high: NDArray[np.uint8], patterns: Sequence[str]
) -> dict[str, Backward]:
    """What training on this picture would send back, by layer.

    high: RGB (h, w, 3). It is made smaller by bicubic, the network enlarges that, and the gradient
    is that of the mean absolute difference (L1), the training's loss.
    """
    wanted = layers_of(model, patterns)
    scale = model.scale
    high = high[: high.shape[0] // scale * scale, : high.shape[1] // scale * scale]
    if 0 in high.shape:
        raise ConfigError(f"the picture is too small for gradients at x{scale}")
    low = _batch(imresize(high, 1 / scale))
    truth = Tensor(_batch(high))
    plain = _Plain(model)
    results: Features = {}
    found: dict[str, Backward] = {}

    def look_back(name: str, dout: Tensor) -> None:
        found[name] = _backward_numbers(results[name], dout.asnumpy(), plain.slopes.get(name))

    handles = plain.watch(wanted, lambda name, x: results.update({name: x}))
    handles += plain.watch_back(wanted, look_back)
    with pynative():
        ms.grad(lambda x: ops.abs(plain.network(x) - truth).mean())(Tensor(low))
    for handle in handles:
        handle.remove()
    if missed := set(wanted) - set(found):
        raise RuntimeError(f"no gradient reached {', '.join(sorted(missed))}")
    return {name: found[name] for name in wanted}


def _backward_numbers(result: Pixels, dout: Pixels, slope: float | None) -> Backward:
    norm = float(np.linalg.norm(dout.astype(np.float64)))
    if slope is None:
        return Backward(norm, 0.0)
    sizes = np.abs(dout.astype(np.float64))
    leaked = slope * sizes[result <= 0].sum()
    passed = sizes[result > 0].sum() + leaked
    return Backward(norm, float(leaked / passed) if passed else 0.0)


class _Watched(nn.Cell):
    """A cell around one with a `bprop` of its own, whose hooks MindSpore would never call."""

    def __init__(self, inner: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.inner = inner

    def construct(self, x: Tensor) -> Tensor:
        return self.inner(x)


class _Plain:
    """A model's network cell by cell in PyNative; an `Engine` while the model is looked into."""

    name = "mindspore"

    def __init__(self, model: Model) -> None:
        self.network = make(model.config, "plain")
        self.network.set_train(False)
        weights.fill(self.network, model.arrays, model.name)
        self.slopes: dict[str, float] = {}
        self._cells = dict(self.network.cells_and_names())
        for name, cell in list(self._cells.items()):
            if name.endswith(".activation"):
                self.slopes[name] = slope_of(cell)
            if hasattr(cell, "bprop"):
                parent, _, attribute = name.rpartition(".")
                self._cells[name] = _Watched(cell)
                setattr(self._cells[parent], attribute, self._cells[name])

    def watch(self, names: Sequence[str], look: Look) -> list[Any]:
        """Have `look` called with each cell's result; gives handles with `remove()`."""

        def hook(name: str) -> Callable[..., None]:
            return lambda cell, given, result: look(name, result.asnumpy().copy())

        return [self._cells[name].register_forward_hook(hook(name)) for name in names]

    def watch_back(self, names: Sequence[str], look: Callable[[str, Tensor], None]) -> list[Any]:
        """Have `look` called with the gradient of each cell's result."""

        def hook(name: str) -> Callable[..., None]:
            return lambda cell, given, dout: look(name, dout[0])

        return [self._cells[name].register_backward_hook(hook(name)) for name in names]

    def forward(self, low: Pixels) -> Pixels:
        """See `Engine`."""
        with pynative():
            high: Pixels = self.network(Tensor(np.ascontiguousarray(low))).asnumpy()
        return high

    def fill(self, arrays: weights.Arrays) -> None:
        """See `Engine`."""
        weights.fill(self.network, arrays, "these weights")


def _names(model: Model) -> list[str]:
    """All layers, by the names of their cells."""
    return [name for name, _ in make(model.config, "plain").cells_and_names() if name]


def _batch(pixels: NDArray[np.uint8]) -> Pixels:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)
