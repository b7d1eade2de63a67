"""What a run leaves in its folder, and how it goes on from there.

    RUN/
      config.yaml          the run's settings, as text to read and to run again
      best.safetensors     the network with the best validation score, ready to use
      latest.safetensors   the network as of the last save, ready to use
      state-00001000.safetensors   all that 1000 steps have changed, to continue: weights, moments,
                           average, progress; the last `keep` of them
      metrics.jsonl, tensorboard/   the journal
      bad_batch/           what the numbers went bad on, if they did

Each file is replaced atomically and read by its checksum. The newest state that is whole alone
decides where a run continues.
"""

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import yaml

from sr_app.atomic import replacing
from sr_app.data.cache import PixelCache
from sr_app.errors import CheckpointError, ConfigError, TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.weights import Weights
from sr_app.training.config import RunConfig, require_same_run
from sr_app.training.guard import listed
from sr_app.training.progress import Progress
from sr_app.training.step import TrainStep

BEST, LATEST, CONFIG = "best.safetensors", "latest.safetensors", "config.yaml"
DAMAGED = ".damaged"
_STATE = re.compile(r"state-(\d{8,})\.safetensors")


@dataclass(frozen=True)
class State:
    """A state that was saved and is whole."""

    path: Path
    arrays: weights.Arrays
    config: dict[str, Any]
    progress: Progress
    data: str
    pictures: list[list[str | int]]


def state_file(folder: Path, step: int) -> Path:
    """The name of the state after so many steps."""
    return folder / f"state-{step:08}.safetensors"


def states(folder: Path) -> list[Path]:
    """The states in a run's folder, the newest first."""
    found = {path: _STATE.fullmatch(path.name) for path in folder.glob("state-*")}
    steps = {path: int(match[1]) for path, match in found.items() if match}
    return sorted(steps, key=lambda path: -steps[path])


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


def save_bytes(step: TrainStep) -> int:
    """What a save takes while older files are still there: a state, and a network twice."""
    state, network = step.get_parameters(), step.average.averages
    return 4 * sum(int(prod(p.shape)) for p in [*state, *network, *network])


def save_state(
    folder: Path,
    arrays: weights.Arrays,
    progress: Progress,
    config: RunConfig,
    data: str,
    pictures: list[list[str | int]],
) -> None:
    """Write all that the step changes, whole, with the run's settings; then drop older states, all
    but `config.keep`. `data` is the pictures' key, `pictures` their fingerprints."""
    about = {"format": weights.FORMAT, "config": asdict(config), "data": data}
    about |= {"progress": asdict(progress), "pictures": pictures}
    path = state_file(folder, progress.step)
    weights.write_arrays(path, arrays, about)
    for old in states(folder)[config.keep :]:
        try:
            old.unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"{old}: can't be removed: {error.strerror}") from error


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
    cache: PixelCache,
    say: Callable[[str], None],
) -> tuple[Progress, weights.Arrays]:
    """What the folder's run has come to, or a beginning: from `warm_start`, or as it was built.

    `fresh` is all that a step changes, as it was built, and whole; what is returned has the same
    names and shapes. `cache` has the pictures, `say` is told what a person should know.
    Raises ConfigError when the folder's run had other settings or pictures, CheckpointError when
    none of its states is whole or config.yaml can't be written.
    """
    state = newest_whole(folder, say)
    if state is None:
        if config.warm_start is not None:
            fresh = _warm_start(Path(config.warm_start), fresh, say)
        _write_config(folder, config)
        return Progress(), fresh
    require_same_run(state.config, config, folder)
    if state.data != cache.key:
        changes = f"{folder} was trained on other pictures than {config.data} holds now: "
        changes += changed_pictures(state.pictures, cache.fingerprints)
        if config.guard.pictures == "stop":
            raise ConfigError(
                f"{changes}. Put them back, give --run another folder to begin anew, or go on with "
                "what is there now: --guard.pictures skip"
            )
        say(f"{changes}; going on with what is there now")
    shapes = {name: array.shape for name, array in fresh.items()}
    weights.require_fit(shapes, state.arrays, state.path)
    progress = state.progress
    if progress.step > config.steps:
        say(f"{folder} has {progress.step} steps already")
        return progress, state.arrays
    if state.config.get("validation") != asdict(config.validation) and progress.best is not None:
        say("validation is not what it was: the best score so far doesn't count any more")
        progress = replace(progress, best=None)
    _write_config(folder, config)
    if progress.step:
        say(f"continuing {folder} after step {progress.step}")
    return progress, state.arrays


def newest_whole(folder: Path, say: Callable[[str], None]) -> State | None:
    """The newest of a folder's states that is whole; None where there is none at all.

    `say` is told which newer ones are damaged; they get another name, so that they aren't counted
    among those that are kept. Raises CheckpointError when all are.
    """
    damaged: dict[Path, str] = {}
    for path in states(folder):
        try:
            state = _read(path)
        except CheckpointError as error:
            damaged[path] = str(error)
            continue
        if damaged:
            say(f"{'; '.join(damaged.values())} (now *{DAMAGED}); going back to {path.name}")
        for bad in damaged:
            bad.replace(f"{bad}{DAMAGED}")
        return state
    if damaged:
        raise CheckpointError(
            f"{'; '.join(damaged.values())}. No other state is there: begin anew with --run "
            f"another folder, if you like with --warm_start {folder / LATEST}"
        )
    return None


def _read(path: Path) -> State:
    """A state; CheckpointError when it is not whole, or none."""
    arrays, about = weights.read_arrays(path)
    try:
        return State(
            path,
            arrays,
            dict(about["config"]),
            Progress.read(about["progress"]),
            about["data"],
            about["pictures"],
        )
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}: is not the state of a run ({error})") from error


def changed_pictures(before: list[list[str | int]], now: list[list[str | int]]) -> str:
    """Which pictures are gone, new or changed, by their fingerprints, in words."""
    was, there = ({str(name): seen for name, seen in each} for each in (before, now))
    kinds = {
        "gone": [name for name in was if name not in there],
        "new": [name for name in there if name not in was],
        "changed": [name for name in was if name in there and was[name] != there[name]],
    }
    told = [f"{kind}: {listed(names)}" for kind, names in kinds.items() if names]
    return "; ".join(told) or "the same names with other pixels, or in another order"


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
