"""A trained network, ready to use: from a checkpoint, with the settings that lie in it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sr_app.errors import CheckpointError, ConfigError
from sr_app.image.tiles import apply_tiled, plan
from sr_app.inference.engines import Engine, EngineName, Mode, chosen, make_engine
from sr_app.inference.export import ENDINGS, open_exported
from sr_app.nets import weights
from sr_app.nets.table import NetworkConfig
from sr_app.nets.weights import Arrays, Weights

TILE = 256
"""Side of a tile's core in low-resolution pixels: it bounds the memory that a picture takes."""

Progress = Callable[[int, int], None]
Enhance = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""RGB (h, w, 3) -> (scale * h, scale * w, 3), float32, 0..255, not clamped."""


class Model:
    """A network that enlarges pictures of any size; compiled once, for all sizes, at first use.

    Args:
        config: the network's shape.
        arrays: its weights, see `fill`; None with an engine that has its own.
        name: what to call it in tables and messages.
        engine: what computes it: the name of one, or one that is ready.
        mode: of MindSpore; see `StaticNetwork`.
    """

    def __init__(
        self,
        config: NetworkConfig,
        arrays: Arrays | None,
        name: str,
        engine: EngineName | Engine = "mindspore",
        mode: Mode = "jit",
    ) -> None:
        self.config = config
        self.name = name
        self._arrays = arrays
        self._made_by = (engine, mode)
        if arrays is not None:
            weights.require_fit(config.shapes, arrays, name)
        if isinstance(engine, str):
            assert arrays is not None
            engine = make_engine(engine, config, arrays, mode)
        self.engine = engine

    @classmethod
    def load(
        cls,
        path: Path,
        name: str | None = None,
        engine: str = "auto",
        mode: Mode = "jit",
    ) -> "Model":
        """The network of a checkpoint or an exported file, by default named like it.

        engine: one by name, or `auto`: the fastest that is there. Raises CheckpointError for the
        file, ConfigError for the engine.
        """
        if path.suffix in ENDINGS:
            if mode == "pynative":
                raise ConfigError(f"--mode pynative needs a checkpoint; {path} is exported")
            config, ready = open_exported(path, engine)
            return cls(config, None, name or path.stem, ready)
        read: Weights = weights.read(path)
        return cls(read.config, read.arrays, name or path.stem, chosen(engine, mode), mode)

    @property
    def scale(self) -> int:
        """How many times larger the output is, per dimension."""
        return self.config.scale

    @property
    def parameters(self) -> int:
        """How many numbers the network has learned."""
        return self.config.parameters

    @property
    def arrays(self) -> Arrays:
        """The weights; CheckpointError for an exported file, which keeps them to itself."""
        if self._arrays is None:
            raise CheckpointError(f"{self.name}: an exported network's weights can't be had")
        return self._arrays

    def fill(self, arrays: Arrays) -> None:
        """Take other weights, in place; the compiled kernel uses them from the next call on."""
        weights.require_fit(self.config.shapes, arrays, self.name)
        self._arrays = arrays
        self.engine.fill(arrays)

    def anew(self) -> "Model":
        """The same network built again: after an error MindSpore's compiled kernel is broken."""
        return Model(self.config, self._arrays, self.name, *self._made_by)

    def enhance(
        self, low: NDArray[np.float32], progress: Progress | None = None, tile: int = TILE
    ) -> NDArray[np.float32]:
        """RGB (h, w, 3) -> (scale * h, scale * w, 3); float32, 0..255, not clamped.

        Worked tile by tile with the receptive radius as halo: equal to the whole picture at once
        within 1e-3 of 255 (sums are taken in another order when a size is no multiple of 8).
        `progress` is told (tiles done, tiles in all). tile: side of a tile's core, low pixels.
        """
        halo = self.config.receptive_radius
        total = len(plan(low.shape[0], low.shape[1], tile, halo))
        done = itertools.count(1)

        def enhance_tile(piece: NDArray[np.float32]) -> NDArray[np.float32]:
            high = self._enhance_tile(piece)
            if progress is not None:
                progress(next(done), total)
            return high

        return apply_tiled(low, enhance_tile, scale=self.scale, tile=tile, halo=halo)

    def _enhance_tile(self, low: NDArray[np.float32]) -> NDArray[np.float32]:
        batch = np.ascontiguousarray(low.transpose(2, 0, 1)[None], np.float32)
        high = self.engine.forward(batch)
        return np.moveaxis(high[0], 0, 2)


def ensemble(enhance: Enhance) -> Enhance:
    """The mean over the 8 flips and turns of the input (EDSR, section 3.5, EDSR+)."""

    def enhance_all(low: NDArray[np.float32]) -> NDArray[np.float32]:
        total: NDArray[np.float32] | None = None
        for turns in range(4):
            for flipped in (False, True):
                seen = np.rot90(low[:, ::-1] if flipped else low, turns)
                back = np.rot90(enhance(seen), -turns)
                back = back[:, ::-1] if flipped else back
                total = back.copy() if total is None else total + back
        assert total is not None
        return total / 8

    return enhance_all


def to_uint8(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Clamp to 0..255 and round, halves to even."""
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)
