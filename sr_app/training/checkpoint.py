"""What a run leaves in its folder, and how it goes on from there.

    RUN/
      config.yaml          the run's settings, as text to read and to run again
      best.safetensors     the network with the best validation score, ready to use
      latest.safetensors   the network as of the last save, ready to use
      state.safetensors    all that a step changes, to continue: weights, moments, average, step
      metrics.jsonl, tensorboard/   the journal

Each file is replaced atomically. `state` alone decides where a run continues.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sr_app.atomic import replacing
from sr_app.errors import CheckpointError, ConfigError, TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.weights import Weights
from sr_app.settings import require_types, require_within
from sr_app.training.config import RunConfig, require_same_run
from sr_app.training.step import TrainStep

STATE, BEST, LATEST, CONFIG = (
    "state.safetensors",
    "best.safetensors",
    "latest.safetensors",
    "config.yaml",
)


@dataclass(frozen=True)
class Progress:
    """How far a run is: steps done, updates skipped in all and last in a row, best PSNR in dB."""

    step: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    best: float | None = None

    def __post_init__(self) -> None:
        require_types(self, "")
        require_within("step", self.step, 0)
        require_within("skipped", self.skipped, 0, self.step)
        require_within("skipped_in_a_row", self.skipped_in_a_row, 0, self.skipped)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run's folder, made if need be, for this process alone.

    The lock is the system's and ends with the process. What an earlier one that was killed left
    half written is cleared away. Raises TrainingError when another process trains there,
    CheckpointError when the folder can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise CheckpointError(f"{folder}: can't be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TrainingError(
                f"{folder}: another process trains there; stop it, or give --run another folder"
            ) from error
        for stale in folder.glob(".*.part.*"):
            stale.unlink()
        yield


def averaged(step: TrainStep) -> weights.Arrays:
    """The averaged weights by the network's own names: what is scored and shipped."""
    return {
        weight.name: average.asnumpy().copy()
        for weight, average in zip(step.average.parameters, step.average.averages, strict=True)
    }


def changing(step: TrainStep) -> weights.Arrays:
    """All that the step changes: the network, Adam's moments, the average; copies, by name."""
    return {p.name: p.asnumpy().copy() for p in step.get_parameters()}


def save_state(
    folder: Path, arrays: weights.Arrays, progress: Progress, config: RunConfig, data: str
) -> None:
    """Write all that the step changes, whole, with the run's settings; `data` is the pictures'
    key."""
    about = {"format": weights.FORMAT, "config": asdict(config), "data": data}
    weights.write_arrays(folder / STATE, arrays, about | {"progress": asdict(progress)})


def save_network(
    path: Path, arrays: weights.Arrays, config: RunConfig, progress: Progress, score: Score | None
) -> None:
    """Write the network, ready to use, with the record of the run that made it."""
    record: dict[str, Any] = {"step": progress.step, "config": asdict(config)}
    if score is not None:
        record["validation"] = {"psnr": score.psnr, "ssim": score.ssim}
    weights.write(path, Weights(config.network, arrays, record))


def restore(
    folder: Path,
    fresh: weights.Arrays,
    config: RunConfig,
    data: str,
    say: Callable[[str], None],
) -> tuple[Progress, weights.Arrays]:
    """What the folder's run has come to, or a beginning: from `warm_start`, or as it was built.

    `fresh` is all that a step changes, as it was built, and whole; what is returned has the same
    names and shapes. `data` is the key of the pictures, `say` is told what a person should know.
    Raises ConfigError when the folder's run had other settings or pictures, CheckpointError when
    its state is damaged or config.yaml can't be written.
    """
    path = folder / STATE
    if not path.exists():
        if config.warm_start is not None:
            fresh = _warm_start(Path(config.warm_start), fresh, say)
        _write_config(folder, config)
        return Progress(), fresh
    arrays, about = weights.read_arrays(path)
    try:
        before = dict(about["config"])
        progress = Progress(**about["progress"])
        same_pictures = about["data"] == data
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}: is not the state of a run ({error})") from error
    require_same_run(before, config, folder)
    if not same_pictures:
        raise ConfigError(
            f"{folder} was trained on other pictures than {config.data} holds now; put them back, "
            "or give --run another folder to begin anew"
        )
    weights.require_fit({name: array.shape for name, array in fresh.items()}, arrays, path)
    if progress.step > config.steps:
        say(f"{folder} has {progress.step} steps already")
        return progress, arrays
    if before.get("validation") != asdict(config.validation) and progress.best is not None:
        say("validation is not what it was: the best score so far doesn't count any more")
        progress = replace(progress, best=None)
    _write_config(folder, config)
    if progress.step:
        say(f"continuing {folder} after step {progress.step}")
    return progress, arrays


def _write_config(folder: Path, config: RunConfig) -> None:
    path = folder / CONFIG
    try:
        with replacing(path) as temporary:
            temporary.write_text(yaml.safe_dump(asdict(config), sort_keys=False))
    except OSError as error:
        raise CheckpointError(f"{path}: can't be written: {error.strerror}") from error


def _warm_start(source: Path, fresh: weights.Arrays, say: Callable[[str], None]) -> weights.Arrays:
    """Begin with the source's weights and averages where it has them in the same shape.

    Only what depends on the scale (`upsample.`) may differ (EDSR, section 4.2: x3 and x4 begin from
    x2); anything else raises CheckpointError that names it.
    """
    trained = weights.read(source).arrays
    network = [name for name in fresh if f"average.{name}" in fresh]
    same = [n for n in network if n in trained and trained[n].shape == fresh[n].shape]
    anew = [name for name in network if name not in same]
    foreign = [name for name in anew if not name.startswith("upsample.")]
    foreign += [n for n in trained.keys() - set(network) if not n.startswith("upsample.")]
    if foreign:
        raise CheckpointError(
            f"warm_start {source}: is of another network than network.* describes; "
            f"{', '.join(sorted(foreign)[:3])} ... ({len(foreign)} arrays) do not fit"
        )
    weights.require_finite(trained, source)
    say(f"warm start from {source}; beginning anew: {', '.join(anew) or 'nothing'}")
    begun = {name: trained[name] for name in same}
    return fresh | begun | {f"average.{name}": array for name, array in begun.items()}
