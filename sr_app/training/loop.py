"""One run from its settings to its checkpoints."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from types import FrameType

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from sr_app.data.cache import PixelCache
from sr_app.data.patches import batches, crops
from sr_app.errors import ConfigError, TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.layers import initialise
from sr_app.nets.table import make
from sr_app.parallel import collectives
from sr_app.parallel.buckets import BucketMean, NoMean, TensorMean
from sr_app.parallel.clip import ClipByGlobalNorm
from sr_app.parallel.mesh import ALONE, Mesh
from sr_app.training import checkpoint
from sr_app.training.checkpoint import Progress
from sr_app.training.config import ParallelConfig, RunConfig
from sr_app.training.ema import WeightAverage
from sr_app.training.journal import Journal, NoJournal
from sr_app.training.optimizer import Adam
from sr_app.training.schedule import learning_rate
from sr_app.training.shard import Layout
from sr_app.training.step import LOSSES, TrainStep

MOST_SKIPS = 10
"""So many steps in a row without a finite gradient end the run."""

COMPARE_EVERY = 100
"""Steps between two comparisons of the ranks' weights."""

Validate = Callable[[weights.Arrays], Score]


def build(config: RunConfig) -> TrainStep:
    """The run's step on one process, its weights initialised by the seed, ready to compile."""
    return lay_out(config, ALONE)[0]


def lay_out(config: RunConfig, mesh: Mesh) -> tuple[TrainStep, Layout]:
    """This rank's step, and how its network is laid over the mesh."""
    ms.set_context(mode=ms.GRAPH_MODE if config.mode == "graph" else ms.PYNATIVE_MODE)
    # A split trunk goes cell by cell: its sums must meet in the middle of each block.
    network = make(config.network, "plain" if mesh.tensor.size > 1 else config.memory)
    initialise(network, config.seed)
    layout = Layout(network, mesh)
    parameters = network.trainable_params()
    shapes = [tuple(p.shape) for p in parameters]
    split = [layout.is_cut(p.name) for p in parameters]
    step = TrainStep(
        network,
        LOSSES[config.loss],
        mean_over(mesh, shapes, config.parallel),
        Adam(parameters),
        ClipByGlobalNorm(config.optimizer.clip_norm, [math.prod(s) for s in shapes], mesh, split),
        WeightAverage(parameters, config.average),
    )
    step.set_train()
    return step, layout


def mean_over(mesh: Mesh, shapes: Sequence[tuple[int, ...]], config: ParallelConfig) -> nn.Cell:
    """What averages the loss and gradients of these shapes over the ranks of the data axis."""
    if mesh.data.size == 1:
        return NoMean()
    if config.fusion == "buckets":
        most, at_the_end = config.bucket_mb * 2**20, mesh.tensor.size > 1
        return BucketMean(shapes, mesh.data, most, at_the_end=at_the_end)
    if config.fusion == "mindspore":
        collectives.fuse(config.bucket_mb)
    return TensorMean(mesh.data, fused=config.fusion == "mindspore")


def train(
    config: RunConfig,
    folder: Path,
    cache: PixelCache,
    validate: Validate,
    say: Callable[[str], None],
    mesh: Mesh = ALONE,
) -> Progress:
    """Train until `config.steps`, or until the user stops it; continue what the folder holds.

    On a mesh all ranks call it alike. They share each batch, so that the run is the same on any
    number of ranks but for rounding; the first one alone writes and talks.

    Args:
        config: the run's settings.
        folder: where its checkpoints and journal go; see `checkpoint`.
        cache: the training pictures.
        validate: scores the network with the given weights; called by all ranks.
        say: is told, before the first step, what a person should know.
        mesh: the ranks.

    Returns how far the run is. Raises TrainingError when the numbers go bad, ranks drift apart, or
    another process trains in the folder, ConfigError when the folder holds a run with other
    settings or pictures, CheckpointError when a save fails.
    """
    if mesh.first and config.warm_start is not None and not (folder / checkpoint.STATE).exists():
        weights.read(Path(config.warm_start))  # is it there? before anything is written

    with ExitStack() as stack:
        # Build, or continue
        if mesh.first:
            stack.enter_context(checkpoint.locked(folder))
        step, layout = lay_out(config, mesh)
        progress = _begin(config, folder, cache, step, layout, say)
        if progress.step >= config.steps:
            return progress
        steps, size = config.steps, config.batch.size
        journal = Journal(folder, progress.step, steps, size) if mesh.first else NoJournal()
        stack.enter_context(journal)
        stop_requested = stack.enter_context(stop_requests(journal.say))
        stream = batches(
            cache,
            seed=config.seed,
            start_step=progress.step,
            batch_size=size,
            patch=config.batch.patch,
            part=mesh.data.index,
            parts=mesh.data.size,
        )
        stack.enter_context(closing(stream))
        last_save = time.monotonic()

        while progress.step < config.steps:
            # Wait for the batch, take the step
            asked = time.perf_counter()
            low, high = next(stream)
            waited = time.perf_counter() - asked
            rate = learning_rate(progress.step - progress.skipped, config.steps, config.optimizer)
            value, norm_value = step(Tensor(low), Tensor(high), Tensor(rate, ms.float32))
            loss, norm = float(value.asnumpy()), float(norm_value.asnumpy())

            # A step whose numbers aren't finite has changed nothing; too many of them end the run
            skipped = not math.isfinite(loss + norm)
            progress = replace(
                progress,
                step=progress.step + 1,
                skipped=progress.skipped + skipped,
                skipped_in_a_row=progress.skipped_in_a_row + 1 if skipped else 0,
            )
            if skipped:
                journal.say(f"step {progress.step}: loss {loss}, norm {norm}; skipped")
            if progress.skipped_in_a_row == MOST_SKIPS:
                raise TrainingError(_diagnosis(cache, config, progress, loss, norm))
            journal.step(progress.step, loss, norm, rate, waited)
            if progress.step % COMPARE_EVERY == 0:
                layout.require_equal(step.network.trainable_params(), progress.step)

            # Validate and save; what was trained is saved where validation fails, too
            last = progress.step == config.steps
            validating = last or progress.step % config.validation.every == 0
            late = time.monotonic() - last_save > 60 * config.save_minutes
            stopping, due = mesh.any(stop_requested(), late)
            if validating or due or stopping:
                with journal.pausing():
                    try:
                        if validating:
                            progress = _validated(
                                config, folder, validate, step, layout, progress, journal
                            )
                    finally:
                        _save(folder, step, layout, config, progress, cache.key)
                last_save = time.monotonic()
                (stopping,) = mesh.any(stop_requested())  # nothing is lost by one that came now
            if stopping:
                break
        mesh.wait()  # the others live until the first has saved
        return progress


def _begin(
    config: RunConfig,
    folder: Path,
    cache: PixelCache,
    step: TrainStep,
    layout: Layout,
    say: Callable[[str], None],
) -> Progress:
    """Fill the step, on all ranks with what the first one finds in the folder, or has built."""
    mesh = layout.mesh
    fresh = layout.join(checkpoint.changing(step))
    arrays, progress = fresh, Progress()
    if mesh.first:
        progress, arrays = checkpoint.restore(folder, fresh, config, cache.key, say)
    if mesh.world.size > 1:
        ours = (cache.key, asdict(config))
        for rank, theirs in enumerate(collectives.gather(ours)):
            if theirs != ours:
                raise ConfigError(
                    f"rank {rank} has other pictures or settings than rank {mesh.world.index}: all "
                    "servers need the same --data and the same settings"
                )
        progress = collectives.gather(progress)[0]
        arrays = {name: collectives.broadcast(arrays[name]) for name in fresh}  # in its order
    weights.fill(step, layout.cut(arrays), folder)
    layout.require_equal(list(step.get_parameters()), progress.step)
    return progress


def _validated(
    config: RunConfig,
    folder: Path,
    validate: Validate,
    step: TrainStep,
    layout: Layout,
    progress: Progress,
    journal: Journal | NoJournal,
) -> Progress:
    """Score the averaged weights and keep them if they are the best so far."""
    arrays = layout.join(checkpoint.averaged(step))
    score = validate(arrays)
    journal.validation(progress.step, score, config.validation.protocol)
    if progress.best is not None and score.psnr <= progress.best:
        return progress
    progress = replace(progress, best=score.psnr)
    if layout.mesh.first:
        checkpoint.save_network(folder / checkpoint.BEST, arrays, config, progress, score)
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


def _save(
    folder: Path,
    step: TrainStep,
    layout: Layout,
    config: RunConfig,
    progress: Progress,
    data: str,
) -> None:
    """Keep the run as it is now, unless an update has made its weights useless."""
    state, arrays = (layout.join(of(step)) for of in (checkpoint.changing, checkpoint.averaged))
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise TrainingError(
            f"step {progress.step}: the weights are not finite any more; lower "
            f"optimizer.learning_rate or optimizer.clip_norm. {folder} keeps the last save"
        )
    if layout.mesh.first:
        checkpoint.save_network(folder / checkpoint.LATEST, arrays, config, progress, None)
        checkpoint.save_state(folder, state, progress, config, data)


@contextmanager
def stop_requests(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C, SIGTERM or SIGHUP asks for a stop after the step; again, it stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        put_back()
        say("stopping after this step; once more stops at once")

    def put_back() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {each: signal.getsignal(each) for each in (SIGINT, SIGTERM, SIGHUP)}
    for each in before:
        signal.signal(each, ask)
    try:
        yield lambda: asked
    finally:
        put_back()
