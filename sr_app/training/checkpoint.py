"""What a run leaves in its folder, and how it goes on from there.

    RUN/
      config.yaml          the run's settings, as text to read and to run again
      best.safetensors     the network with the best validation score, ready to use
      latest.safetensors   the network as of the last save, ready to use
      state.safetensors    all that a step changes, to continue: weights, moments, average, step
      metrics.jsonl, tensorboard/   the journal

Each file is replaced atomically. `state` alone decides where a run continues.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from sr_app.atomic import replacing
from sr_app.errors import CheckpointError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.weights import Weights
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
    """How far a run is: steps done, updates skipped, its best validation PSNR in dB."""

    step: int = 0
    skipped: int = 0
    best: float | None = None


def averaged(step: TrainStep) -> weights.Arrays:
    """The averaged weights by the network's own names: what is scored and shipped."""
    return {
        weight.name: average.asnumpy().copy()
        for weight, average in zip(step.average.parameters, step.average.averages, strict=True)
    }


def save_state(folder: Path, step: TrainStep, progress: Progress, config: RunConfig) -> None:
    """Write all that the step changes, with the run's settings."""
    arrays = {p.name: p.asnumpy() for p in step.get_parameters()}
    about = {"format": weights.FORMAT, "config": asdict(config), **asdict(progress)}
    weights.write_arrays(folder / STATE, arrays, about)


def save_network(
    path: Path, arrays: weights.Arrays, config: RunConfig, progress: Progress, score: Score | None
) -> None:
    """Write the network, ready to use, with the record of the run that made it."""
    record: dict[str, Any] = {"step": progress.step, "config": asdict(config)}
    if score is not None:
        record["validation"] = {"psnr": score.psnr, "ssim": score.ssim}
    weights.write(path, Weights(config.network, arrays, record))


def restore(folder: Path, step: TrainStep, config: RunConfig) -> Progress:
    """Fill the step from the folder's state, or begin: write config.yaml and return zero.

    Raises ConfigError when the folder's run had other settings, CheckpointError when its state is
    damaged or can't be written.
    """
    path = folder / STATE
    if not path.exists():
        _write_config(folder, config)
        return Progress()
    arrays, about = weights.read_arrays(path)
    try:
        before = about["config"]
        progress = Progress(about["step"], about["skipped"], about["best"])
    except KeyError as error:
        raise CheckpointError(f"{path}: is not the state of a run (no {error} in it)") from error
    require_same_run(before, config, folder)
    weights.fill(step, arrays, path)
    _write_config(folder, config)
    return progress


def _write_config(folder: Path, config: RunConfig) -> None:
    path = folder / CONFIG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(yaml.safe_dump(asdict(config), sort_keys=False))
    except OSError as error:
        raise CheckpointError(f"{path}: can't be written: {error.strerror}") from error


def warm_arrays(source: Path, fresh: weights.Arrays, say: Callable[[str], None]) -> weights.Arrays:
    """The fresh network's arrays with all that the source has in the same shape in their place.

    Only what depends on the scale (`upsample.`) may differ (EDSR, section 4.2: x3 and x4 begin from
    x2); anything else raises CheckpointError that names it. `say` is told what begins anew.
    """
    trained = weights.read(source).arrays
    same = [n for n in fresh if n in trained and trained[n].shape == fresh[n].shape]
    anew = [name for name in fresh if name not in same]
    foreign = [name for name in anew if not name.startswith("upsample.")]
    foreign += [n for n in trained.keys() - fresh.keys() if not n.startswith("upsample.")]
    if foreign:
        raise CheckpointError(
            f"warm_start {source}: is of another network than network.* describes; "
            f"{', '.join(sorted(foreign)[:3])} ... ({len(foreign)} arrays) do not fit"
        )
    say(f"warm start from {source}; beginning anew: {', '.join(anew) or 'nothing'}")
    return {name: trained[name] if name in same else fresh[name] for name in fresh}
