"""The schema of a run. A YAML file in configs/ fills it; the command line overrides it."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sr_app.errors import ConfigError
from sr_app.image.metrics import PROTOCOLS
from sr_app.nets.description import EDSRConfig
from sr_app.nets.table import NetworkConfig
from sr_app.settings import require_above_zero, require_types, require_within
from sr_app.training.precision import Precision


@dataclass(frozen=True)
class BatchConfig:
    """What one step sees.

    Args:
        size: pairs of patches, over all devices together.
        patch: side of the low-resolution patch in pixels; the high one is `scale` times larger.
    """

    size: int = 16
    patch: int = 48

    def __post_init__(self) -> None:
        require_types(self, "batch.")
        require_within("batch.size", self.size, 1, 65_536)
        require_within("batch.patch", self.patch, 4, 4096)


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam, its learning rate and the clip.

    Args:
        learning_rate: the peak rate.
        schedule: `halving` (the paper's) or `cosine`.
        halve_every: updates between two halvings; for `halving` alone.
        final_rate: where the cosine ends; for `cosine` alone.
        warm_up: updates over which the rate rises in a straight line.
        clip_norm: bound on the global norm of all gradients; null only measures it.
    """

    learning_rate: float = 1e-4
    schedule: Literal["halving", "cosine"] = "halving"
    halve_every: int = 200_000
    final_rate: float = 0.0
    warm_up: int = 0
    clip_norm: float | None = 10.0

    def __post_init__(self) -> None:
        require_types(self, "optimizer.")
        require_above_zero("optimizer.learning_rate", self.learning_rate)
        require_within("optimizer.halve_every", self.halve_every, 1)
        require_within("optimizer.warm_up", self.warm_up, 0)
        require_within("optimizer.final_rate", self.final_rate, 0)
        if self.clip_norm is not None:
            require_above_zero("optimizer.clip_norm", self.clip_norm)
        if self.final_rate > self.learning_rate:
            raise ConfigError(
                f"optimizer.final_rate ({self.final_rate}) is above optimizer.learning_rate "
                f"({self.learning_rate}); the cosine only falls"
            )


@dataclass(frozen=True)
class ValidationConfig:
    """The score that is taken during the run.

    Args:
        data: the set; null takes the validation pictures of the training set, or, where it has
            none, the embedded ones.
        every: steps between two validations.
        pictures: at most so many, the first ones.
        protocol: `benchmark`, `div2k` or `rgb`.
    """

    data: str | None = None
    every: int = 1000
    pictures: int = 10
    protocol: str = "div2k"

    def __post_init__(self) -> None:
        require_types(self, "validation.")
        require_within("validation.every", self.every, 1)
        require_within("validation.pictures", self.pictures, 1)
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"validation.protocol must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r}"
            )


@dataclass(frozen=True)
class ParallelConfig:
    """How several devices share a run; nothing of it changes what is learned but for rounding.

    Args:
        tensor: so many ranks share one network; all ranks / tensor see other pictures.
        fusion: how gradients are averaged: in `buckets` of our own, each tensor for itself and
            fused by `mindspore` (not on the CPU), or `none` fused.
        bucket_mb: megabytes in a bucket.
    """

    tensor: int = 1
    fusion: Literal["buckets", "mindspore", "none"] = "buckets"
    bucket_mb: int = 32

    def __post_init__(self) -> None:
        require_types(self, "parallel.")
        require_within("parallel.tensor", self.tensor, 1, 1024)
        require_within("parallel.bucket_mb", self.bucket_mb, 1, 4096)


@dataclass(frozen=True)
class GuardConfig:
    """What is done when numbers or pictures go bad.

    Args:
        most_skips: so many steps in a row without an update end the run.
        spike: a loss over so many times the usual one (the median of the last 100) is told, with
            its files; null doesn't look.
        skip_spikes: leave such a step out, as the EDSR authors' program does.
        pictures: when pictures can't be read, or are not those that the run began with: `stop`, or
            `skip` what can't be read and go on with what is there.
    """

    most_skips: int = 10
    spike: float | None = 10.0
    skip_spikes: bool = False
    pictures: Literal["stop", "skip"] = "stop"

    def __post_init__(self) -> None:
        require_types(self, "guard.")
        require_within("guard.most_skips", self.most_skips, 1)
        if self.spike is not None and not self.spike > 1:
            raise ConfigError(f"guard.spike must be above 1, got {self.spike}")
        if self.skip_spikes and self.spike is None:
            raise ConfigError("guard.skip_spikes needs a guard.spike: say how many times the usual")


@dataclass(frozen=True)
class RunConfig:
    """One run.

    Args:
        data: the training set: a name, a folder, several joined by +.
        steps: how many batches to train on.
        seed: of the weights and of the data's order.
        loss: `l1` or `charbonnier`.
        average: decay of the weights' moving average, which is what is scored and shipped;
            0 ships the weights themselves.
        warm_start: checkpoint whose weights to begin from; those that another scale has in
            another shape (its upsampling) begin anew.
        memory: `fast`, or `low`: half of a trunk's memory for a sixth more work (with our own
            operators alone).
        mode: `graph` compiles the whole step; `pynative` runs it operator by operator, to debug.
        precision: `float32`, or `float16` with a scale on the loss (not on the CPU).
        save_minutes: minutes between two saves of the run's state.
        keep: so many states are kept, the last ones; besides the best network.
        max_hours: the run saves and stops after so many hours; the same command continues.
    """

    data: str = "sample"
    steps: int = 300_000
    seed: int = 1
    loss: Literal["l1", "charbonnier"] = "l1"
    average: float = 0.999
    warm_start: str | None = None
    memory: Literal["fast", "low"] = "fast"
    mode: Literal["graph", "pynative"] = "graph"
    precision: Precision = "float32"
    save_minutes: float = 5.0
    keep: int = 2
    max_hours: float | None = None
    network: NetworkConfig = field(default_factory=EDSRConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)

    def __post_init__(self) -> None:
        require_types(self, "")
        require_within("steps", self.steps, 1)
        require_within("seed", self.seed, 0)
        require_above_zero("save_minutes", self.save_minutes)
        require_within("keep", self.keep, 1, 1000)
        if self.max_hours is not None:
            require_above_zero("max_hours", self.max_hours)
        if not 0 <= self.average < 1:
            raise ConfigError(f"average must be at least 0 and below 1, got {self.average}")
        if self.optimizer.warm_up >= self.steps:
            raise ConfigError(
                f"optimizer.warm_up ({self.optimizer.warm_up}) leaves none of {self.steps} steps; "
                f"make it smaller: --optimizer.warm_up 0"
            )


FREE = (
    *("steps", "memory", "mode", "save_minutes", "keep", "max_hours"),
    *("validation", "parallel", "guard"),
)
"""What may change when a run is continued; all else would make it another run."""


def require_same_run(before: dict[str, Any], now: RunConfig, folder: object) -> None:
    """ConfigError that names each setting in which a continued run may not differ.

    A setting that there was not yet when the run began had its default.
    """
    was, wanted, default = _flat(before), _flat(asdict(now)), _flat(asdict(RunConfig()))
    before_and_now = {
        key: (was.get(key, default.get(key)), wanted.get(key))
        for key in sorted(was.keys() | wanted.keys())
        if key.split(".")[0] not in FREE
    }
    changed = [
        f"{key} was {old!r}, now {new!r}"
        for key, (old, new) in before_and_now.items()
        if old != new
    ]
    if changed:
        raise ConfigError(
            f"{folder} holds a run with other settings ({'; '.join(changed)}); "
            "give --run another folder to begin anew, or the old settings to continue"
        )


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
