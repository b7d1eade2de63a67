"""One run from its settings to its checkpoints."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import mindspore as ms
from mindspore import Tensor

from sr_app.data.cache import PixelCache
from sr_app.data.patches import batches, crops
from sr_app.errors import TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.layers import initialise
from sr_app.nets.table import make
from sr_app.training import checkpoint
from sr_app.training.checkpoint import Progress
from sr_app.training.clip import ClipByGlobalNorm
from sr_app.training.config import RunConfig
from sr_app.training.ema import WeightAverage
from sr_app.training.journal import Journal
from sr_app.training.optimizer import Adam
from sr_app.training.schedule import learning_rate
from sr_app.training.step import LOSSES, TrainStep

MOST_SKIPS = 10
"""So many steps in a row without a finite gradient end the run."""

Validate = Callable[[weights.Arrays], Score]


def build(config: RunConfig, say: Callable[[str], None]) -> TrainStep:
    """The run's step, its weights initialised by the seed or warm-started, ready to compile."""
    ms.set_context(mode=ms.GRAPH_MODE if config.mode == "graph" else ms.PYNATIVE_MODE)
    network = make(config.network)
    initialise(network, config.seed)
    if config.warm_start is not None:
        warm = checkpoint.warm_arrays(Path(config.warm_start), weights.gather(network), say)
        weights.fill(network, warm, config.warm_start)
    parameters = network.trainable_params()
    step = TrainStep(
        network,
        LOSSES[config.loss],
        Adam(parameters),
        ClipByGlobalNorm(config.optimizer.clip_norm),
        WeightAverage(parameters, config.average),
    )
    step.set_train()
    return step


def train(config: RunConfig, folder: Path, cache: PixelCache, validate: Validate) -> Progress:
    """Train until `config.steps`, or until the user stops it; continue what the folder holds.

    Args:
        config: the run's settings.
        folder: where its checkpoints and journal go; see `checkpoint`.
        cache: the training pictures.
        validate: scores the network with the given weights.

    Returns how far the run is. Raises TrainingError when the gradients stay non-finite, ConfigError
    when the folder holds a run with other settings, CheckpointError when a save fails.
    """
    # Build, or continue
    notes: list[str] = []
    step = build(config, notes.append)
    progress = checkpoint.restore(folder, step, config)
    if progress.step >= config.steps:
        return progress
    stream = batches(
        cache,
        seed=config.seed,
        start_step=progress.step,
        batch_size=config.batch.size,
        patch=config.batch.patch,
    )
    with (
        Journal(folder, progress.step, config.steps, config.batch.size) as journal,
        closing(stream),
        stop_requests() as stop_requested,
    ):
        for note in notes:
            journal.say(note)
        if progress.step:
            journal.say(f"continuing {folder} after step {progress.step}")
        skips_in_a_row = 0
        last_save = time.monotonic()
        while progress.step < config.steps and not stop_requested():
            # Wait for the batch, take the step
            asked = time.perf_counter()
            low, high = next(stream)
            waited = time.perf_counter() - asked
            rate = learning_rate(progress.step - progress.skipped, config.steps, config.optimizer)
            value, norm = step(Tensor(low), Tensor(high), Tensor(rate, ms.float32))
            loss, size = float(value.asnumpy()), float(norm.asnumpy())

            # A step whose numbers aren't finite has changed nothing; too many of them end the run
            skipped = not math.isfinite(loss + size)
            skips_in_a_row = skips_in_a_row + 1 if skipped else 0
            progress = replace(progress, step=progress.step + 1, skipped=progress.skipped + skipped)
            if skipped:
                journal.say(f"step {progress.step}: loss {loss}, norm {size}; skipped")
            if skips_in_a_row == MOST_SKIPS:
                raise TrainingError(_diagnosis(cache, config, progress, loss, size))
            journal.step(progress.step, loss, size, rate, waited)

            # Validate
            last = progress.step == config.steps
            validated = last or progress.step % config.validation.every == 0
            if validated:
                arrays = checkpoint.averaged(step)
                score = validate(arrays)
                journal.validation(progress.step, score)
                if progress.best is None or score.psnr > progress.best:
                    progress = replace(progress, best=score.psnr)
                    checkpoint.save_network(
                        folder / checkpoint.BEST, arrays, config, progress, score
                    )

            # Save
            due = time.monotonic() - last_save > 60 * config.save_minutes
            if validated or due or stop_requested():
                _save(folder, step, config, progress)
                last_save = time.monotonic()
                journal.pause()
    return progress


def _diagnosis(
    cache: PixelCache, config: RunConfig, progress: Progress, loss: float, norm: float
) -> str:
    chosen = crops(
        cache,
        seed=config.seed,
        step=progress.step - 1,
        batch_size=config.batch.size,
        patch=config.batch.patch,
    )
    names = sorted({cache.names[crop.picture] for crop in chosen})
    return (
        f"{MOST_SKIPS} steps in a row up to step {progress.step} had no finite loss and gradient "
        f"(loss {loss}, norm {norm}); the last batch was cut from {', '.join(names)}. Lower "
        "optimizer.learning_rate or optimizer.clip_norm, or look at these pictures; the run's "
        "folder keeps the state before its last save"
    )


def _save(folder: Path, step: TrainStep, config: RunConfig, progress: Progress) -> None:
    checkpoint.save_network(
        folder / checkpoint.LATEST, checkpoint.averaged(step), config, progress, None
    )
    checkpoint.save_state(folder, step, progress, config)


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C or SIGTERM asks for a stop after the step; a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, ask)
    try:
        yield lambda: asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
