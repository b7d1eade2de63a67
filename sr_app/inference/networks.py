"""The network for a wanted factor: the one that was chosen, or the nearest larger shipped one."""

import re
from collections.abc import Callable
from pathlib import Path

from sr_app.errors import CheckpointError, ConfigError
from sr_app.inference.model import TILE, Model
from sr_app.inference.upscale import Upscaler

SHIPPED = Path(__file__).resolve().parent.parent.parent / "checkpoints"
_NEAR = 1e-9  # factors that differ by a rounding are the same


def shipped(scale: int) -> Path:
    """The file of the shipped network that enlarges so far; CheckpointError if there is none."""
    return shipped_for(scale, exactly=True)[1]


def shipped_for(factor: float, exactly: bool = False) -> tuple[int, Path]:
    """Scale and file of the shipped network of the least scale that reaches the factor."""
    found = {
        int(match[1]): path
        for path in sorted(SHIPPED.glob("edsr_light_x*.safetensors"))
        if (match := re.fullmatch(r"edsr_light_x(\d)", path.stem))
    }
    for scale, path in sorted(found.items()):
        if scale == factor or (scale >= factor - _NEAR and not exactly):
            return scale, path
    wanted = f"x{factor:g}" if exactly else f"x{factor:g} or more"
    raise CheckpointError(
        f"no network for {wanted} is shipped (there are: "
        f"{', '.join(f'x{scale}' for scale in sorted(found)) or 'none'}); train one with --config "
        "configs/edsr_light_x4.yaml (or x3) and give --checkpoint, or enlarge twice"
    )


class Networks:
    """Networks to choose from by the factor, each loaded once, when it is first needed.

    Args:
        model: the only one to take; by default the shipped ones are there.
        tile, together: see `Upscaler`.
        load: makes a model of a shipped network's file.
    """

    def __init__(
        self,
        model: Model | None = None,
        tile: int = TILE,
        together: bool = False,
        load: Callable[[Path], Model] = Model.load,
    ) -> None:
        self._load = load
        self._only = Upscaler(model, tile, together) if model else None
        self._tile, self._together = tile, together
        self._loaded: dict[int, Upscaler] = {}

    @property
    def usual_factor(self) -> int:
        """What is meant where no factor is asked for."""
        return self._only.model.scale if self._only else 2

    def reaching(self, factor: float) -> Upscaler:
        """The network whose scale is the least that reaches the factor.

        Raises CheckpointError if no shipped one does, ConfigError if the chosen one doesn't.
        """
        if self._only is not None:
            if factor > self._only.model.scale + _NEAR:
                raise ConfigError(
                    f"x{factor:g} was asked for, but {self._only.model.name} enlarges "
                    f"x{self._only.model.scale}; give another --checkpoint, or enlarge twice"
                )
            return self._only
        scale, path = shipped_for(factor)
        if scale not in self._loaded:
            self._loaded[scale] = Upscaler(self._load(path), self._tile, self._together)
        return self._loaded[scale]
