"""The numbers that a network is computed in, and what float16 needs: a scale on the loss.

Weights, moments, average, loss and the update are float32 always. In float16 the network's
convolutions are, forward and backward; gradients below 6e-8 would be 0 there, so the loss is
multiplied before and they are divided after (Micikevicius et al., 2018, section 3.2). The scale is
halved when they overflow, which skips the step, and doubled when they long have not.

float16 has run on no accelerator yet: its step and its scale were tried on a CPU, with MindSpore's
operators, where it is slower than float32 and therefore refused.
"""

from dataclasses import dataclass, replace
from typing import Literal

import mindspore as ms

from sr_app.errors import ConfigError
from sr_app.settings import require_types, require_within

Precision = Literal["float32", "float16"]
SUPPORTED: dict[str, tuple[Precision, ...]] = {
    "CPU": ("float32",),
    "GPU": ("float32", "float16"),
    "Ascend": ("float32", "float16"),
}
FIRST, LOWEST, HIGHEST = 2.0**16, 1.0, 2.0**24
GROW_AFTER = 2000
"""Steps without an overflow after which the scale is doubled."""


def require_precision(precision: Precision) -> None:
    """ConfigError that says what is supported unless the device computes in this precision."""
    device = str(ms.get_context("device_target"))
    supported = SUPPORTED.get(device, ("float32",))
    if precision not in supported:
        raise ConfigError(
            f"precision {precision} is not supported on this device ({device}, where it brings "
            f"nothing); supported: {', '.join(supported)}"
        )


@dataclass(frozen=True)
class LossScale:
    """The factor on the loss, a power of two, and how many steps went well since it changed."""

    value: float = FIRST
    good: int = 0

    def __post_init__(self) -> None:
        require_types(self, "scale.")
        require_within("scale.value", self.value, LOWEST, HIGHEST)
        require_within("scale.good", self.good, 0, GROW_AFTER)

    @property
    def lowest(self) -> bool:
        """Whether it can't be halved any more."""
        return self.value == LOWEST

    def after(self, finite: bool) -> "LossScale":
        """The scale for the next step."""
        if not finite:
            return LossScale(max(self.value / 2, LOWEST))
        if self.good + 1 < GROW_AFTER:
            return replace(self, good=self.good + 1)
        return LossScale(min(self.value * 2, HIGHEST))
