"""One run from its settings to its checkpoints."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from types import FrameType

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from numpy.typing import NDArray

from sr_app.data.cache import PixelCache
from sr_app.data.patches import batches
from sr_app.errors import ConfigError, DataError, PictureError, TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.layers import initialise
from sr_app.nets.table import make
from sr_app.parallel import collectives
from sr_app.parallel.buckets import BucketMean, NoMean, TensorMean
from sr_app.parallel.clip import ClipByGlobalNorm
from sr_app.parallel.mesh import ALONE, Mesh
from sr_app.training import checkpoint, guard
from sr_app.training.config import ParallelConfig, RunConfig
from sr_app.training.ema import WeightAverage
from sr_app.training.journal import Journal, NoJournal
from sr_app.training.optimizer import Adam
from sr_app.training.precision import LossScale, require_precision
from sr_app.training.progress import Progress, Taken
from sr_app.training.saver import Saver
from sr_app.training.schedule import learning_rate
from sr_app.training.shard import Layout
from sr_app.training.step import LOSSES, TrainStep

LOOK_EVERY = 100
"""Steps between two looks at whether the ranks' weights are the same and the disk has room."""

Validate = Callable[[weights.Arrays], Score]


def build(config: RunConfig) -> TrainStep:
    """The run's step on one process, its weights initialised by the seed, ready to compile."""
    return lay_out(config, ALONE)[0]


def lay_out(config: RunConfig, mesh: Mesh) -> tuple[TrainStep, Layout]:
    """This rank's step, and how its network is laid over the mesh."""
    ms.set_context(mode=ms.GRAPH_MODE if config.mode == "graph" else ms.PYNATIVE_MODE)
    # A split trunk goes cell by cell: its sums must meet in the middle of each block.
    network = make(config.network, "plain" if mesh.tensor.size > 1 else config.memory)
    if config.precision == "float16":
        network.to_float(ms.float16)
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
    require_precision(config.precision)
    if mesh.first and config.warm_start is not None and not checkpoint.states(folder):
        weights.read(Path(config.warm_start))  # is it there? before anything is written

    with ExitStack() as stack:
        # Build, or continue
        began = time.monotonic()
        if mesh.first:
            stack.enter_context(checkpoint.locked(folder))
        step, layout = lay_out(config, mesh)
        progress = _begin(config, folder, cache, step, layout, say)
        if progress.step >= config.steps:
            return progress
        journal: Journal | NoJournal = NoJournal()
        if mesh.first:
            journal = Journal(
                folder, progress.step, config.steps, config.batch.size, progress.recent
            )
        stack.enter_context(journal)
        stop_requested = stack.enter_context(stop_requests(journal.say))
        stream = batches(
            cache,
            seed=config.seed,
            start_step=progress.step,
            batch_size=config.batch.size,
            patch=config.batch.patch,
            part=mesh.data.index,
            parts=mesh.data.size,
        )
        stack.enter_context(closing(stream))
        saver = stack.enter_context(Saver())
        save = partial(_save, saver, folder, step, layout, config, cache, journal)
        disk = guard.LowDisk(folder, checkpoint.save_bytes(step), journal.say)
        disk.look()
        last_save = time.monotonic()

        while progress.step < config.steps:
            # Wait for the batch, take the step
            saver.look()
            asked = time.perf_counter()
            low, high = next(stream)
            waited = time.perf_counter() - asked
            rate = learning_rate(progress.updates, config.steps, config.optimizer)
            limit = guard.spike_limit(config.guard, progress)
            taken = _take(step, low, high, rate, limit, config, progress)
            progress = progress.after(taken)

            # A step that was skipped has changed nothing; too many of them end the run
            trouble = guard.trouble_of(taken, limit)
            if trouble is not None:
                journal.trouble(
                    progress.step, trouble, guard.files_of(cache, config, progress.step)
                )
            if progress.skipped_in_a_row == config.guard.most_skips:
                raise TrainingError(_diagnosis(folder, cache, config, step, progress, rate, mesh))
            journal.step(progress.step, taken, rate, waited)
            if progress.step % LOOK_EVERY == 0:
                layout.require_equal(step.network.trainable_params(), progress.step)
                disk.look()

            # Validate and save
            last = progress.step == config.steps
            validating = last or progress.step % config.validation.every == 0
            late = time.monotonic() - last_save > 60 * config.save_minutes
            over = time.monotonic() - began > 3600 * (config.max_hours or math.inf)
            stopping, over, due = mesh.any(stop_requested(), over, late)
            if validating or due or stopping or over:
                with journal.pausing():
                    best = None
                    if validating:
                        progress, best = _validated(
                            config, validate, step, layout, progress, journal, save
                        )
                    save(progress, best)
                last_save = time.monotonic()
                (stopping,) = mesh.any(stop_requested())  # nothing is lost by one that came now
            if over and not last:
                journal.say(f"stopping: {config.max_hours} hours are over (max_hours)")
            if stopping or over:
                break
        saver.wait()
        mesh.wait()  # the others live until the first has saved
        return progress


def _take(
    step: TrainStep,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    rate: float,
    limit: float,
    config: RunConfig,
    progress: Progress,
) -> Taken:
    """Take a step on this rank's part of a batch; the same comes out on all ranks."""
    skipping, scale = config.guard.skip_spikes, progress.scale
    value, norm = step(
        Tensor(low),
        Tensor(high),
        Tensor(rate, ms.float32),
        Tensor(limit, ms.float32) if skipping else None,
        None if scale is None else Tensor(scale.value, ms.float32),
    )
    loss, size = float(value.asnumpy()), float(norm.asnumpy())
    updated = math.isfinite(loss + size) and not (skipping and loss > limit)
    return Taken(loss, size, updated)


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
        progress, arrays = checkpoint.restore(folder, fresh, config, cache, say)
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
    if config.precision == "float16" and progress.scale is None:
        return replace(progress, scale=LossScale())
    return progress


def _validated(
    config: RunConfig,
    validate: Validate,
    step: TrainStep,
    layout: Layout,
    progress: Progress,
    journal: Journal | NoJournal,
    save: Callable[[Progress, Score | None], None],
) -> tuple[Progress, Score | None]:
    """Score the averaged weights; their score, too, if it is the best so far.

    What was trained is saved where that fails; not where the journal does, which then would lack
    the score for good.
    """
    try:
        score = validate(layout.join(checkpoint.averaged(step)))
    except BaseException as error:  # on all ranks alike: see Mesh.spread
        if config.guard.pictures == "skip" and isinstance(error, PictureError | DataError):
            journal.trouble(progress.step, f"no validation: {error}", [])
            return progress, None
        save(progress, None)
        raise
    journal.validation(progress.step, score, config.validation.protocol)
    if progress.best is not None and score.psnr <= progress.best:
        return progress, None
    return replace(progress, best=score.psnr), score


def _diagnosis(
    folder: Path,
    cache: PixelCache,
    config: RunConfig,
    step: TrainStep,
    progress: Progress,
    rate: float,
    mesh: Mesh,
) -> str:
    """Why the run ends after too many skips; writes the batch out."""
    last = progress.recent[-1]
    names = guard.files_of(cache, config, progress.step)
    batch = guard.keep_batch(folder, cache, config, progress, rate) if mesh.first else ""
    largest = max(np.abs(weight.asnumpy()).max() for weight in step.network.trainable_params())
    saved = checkpoint.states(folder)
    good = f"the last good state is {saved[0]}" if saved else "no state has been saved yet"
    return (
        f"{config.guard.most_skips} steps in a row up to step {progress.step} changed nothing "
        f"(loss {last.loss:.4g}, norm {last.norm:.4g}, rate {rate:.3g}, largest weight "
        f"{largest:.3g}); the last batch was cut from {guard.listed(names)}; {batch}; {good}. "
        "If the pictures are right the rate is too high: begin with a lower "
        "optimizer.learning_rate or optimizer.clip_norm in another --run folder, if you like with "
        f"--warm_start {folder / checkpoint.LATEST}"
    )


def _save(
    saver: Saver,
    folder: Path,
    step: TrainStep,
    layout: Layout,
    config: RunConfig,
    cache: PixelCache,
    journal: Journal | NoJournal,
    progress: Progress,
    best: Score | None,
) -> None:
    """Begin to keep the run as it is now, unless an update has made its weights useless.

    `best` is the score of the averaged weights if there was none better.
    """
    state, arrays = (layout.join(of(step)) for of in (checkpoint.changing, checkpoint.averaged))
    if not all(np.isfinite(array).all() for array in state.values()):
        raise TrainingError(
            f"step {progress.step}: the weights are not finite any more; lower "
            f"optimizer.learning_rate or optimizer.clip_norm. {folder} keeps the last save"
        )

    def write() -> None:
        """What the state tells of is on the disk before it."""
        journal.secure()
        if best is not None:
            checkpoint.save_network(folder / checkpoint.BEST, arrays, config, progress, best)
        checkpoint.save_network(folder / checkpoint.LATEST, arrays, config, progress, None)
        checkpoint.save_state(folder, state, progress, config, cache.key, cache.fingerprints)

    if layout.mesh.first:
        saver.start(write)


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
