"""How far a run is: what changes with each step and is neither weight nor moment."""

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from sr_app.settings import require_types, require_within
from sr_app.training.precision import LossScale

RECENT = 100
"""Steps whose losses say what is usual."""
USUAL_AFTER = 20
"""Steps before there is a usual loss."""


class Taken(NamedTuple):
    """A step that was taken: its loss, the norm of its gradients, whether it updated anything."""

    loss: float
    norm: float
    updated: bool

    @property
    def finite(self) -> bool:
        """Whether loss and norm are numbers."""
        return math.isfinite(self.loss + self.norm)


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Args:
        step: steps done.
        skipped, skipped_in_a_row: of these without an update, in all and at the end.
        best: the best PSNR so far in dB.
        recent: the last steps, at most RECENT.
        scale: of the loss, in float16.
    """

    step: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    best: float | None = None
    recent: tuple[Taken, ...] = ()
    scale: LossScale | None = None

    def __post_init__(self) -> None:
        require_types(self, "")
        require_within("step", self.step, 0)
        require_within("skipped", self.skipped, 0, self.step)
        require_within("skipped_in_a_row", self.skipped_in_a_row, 0, self.skipped)

    @classmethod
    def read(cls, kept: dict[str, Any]) -> "Progress":
        """What `asdict` gave, through JSON; some error of Python's or ConfigError if damaged."""
        recent = tuple(Taken(float(a), float(b), bool(c)) for a, b, c in kept.get("recent", ()))
        scale = kept.get("scale")
        return cls(
            **kept | {"recent": recent, "scale": None if scale is None else LossScale(**scale)}
        )

    @property
    def updates(self) -> int:
        """Steps that changed the weights: what the schedule counts."""
        return self.step - self.skipped

    def usual_loss(self) -> float | None:
        """The median of the recent losses; None while there are few."""
        losses = [taken.loss for taken in self.recent if taken.finite]
        return median(losses) if len(losses) >= USUAL_AFTER else None

    def after(self, taken: Taken) -> "Progress":
        """One step further. A skip that lowers the loss scale isn't one of those in a row: it is
        how float16 finds its scale."""
        scale, scaled_down = self.scale, False
        if scale is not None:
            scaled_down = not taken.finite and not scale.lowest
            scale = scale.after(taken.finite)
        in_a_row = 0 if taken.updated else self.skipped_in_a_row + (not scaled_down)
        return replace(
            self,
            step=self.step + 1,
            skipped=self.skipped + (not taken.updated),
            skipped_in_a_row=in_a_row,
            recent=(*self.recent, taken)[-RECENT:],
            scale=scale,
        )
