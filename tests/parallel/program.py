"""What ranks do in the tests: each compares itself with one process, which it is, too.

    python program.py RESULTS TENSOR MODE ...

Rank 0 writes a JSON object with what was found; see the functions for its parts.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from sr_app.cli import main
from sr_app.errors import DataError, TrainingError
from sr_app.nets.description import EDSRConfig
from sr_app.parallel import launch
from sr_app.parallel.mesh import ALONE, Mesh, mesh
from sr_app.training import checkpoint
from sr_app.training.config import BatchConfig, OptimizerConfig, ParallelConfig, RunConfig
from sr_app.training.loop import lay_out
from sr_app.training.shard import Layout
from sr_app.training.step import TrainStep

STEPS = 20
BATCH = 4
RATE = Tensor(1e-3, ms.float32)


def config(mode: str, fusion: str = "buckets") -> RunConfig:
    """Two blocks of 8 features, clipped at every step (their norms are 20 and more)."""
    return RunConfig(
        network=EDSRConfig(blocks=2, features=8, residual_scale=0.5),
        batch=BatchConfig(BATCH, 12),
        optimizer=OptimizerConfig(clip_norm=1.0),
        average=0.9,
        mode=mode,
        parallel=ParallelConfig(fusion=fusion),
    )


def batch(number: int, part: int = 0, parts: int = 1) -> tuple[Any, Any]:
    """A rank's part of a batch of noise, and the same enlarged."""
    low = np.random.default_rng(number).uniform(0, 255, (BATCH, 3, 12, 12)).astype(np.float32)
    size = BATCH // parts
    low = low[part * size : (part + 1) * size]
    return low, low.repeat(2, axis=2).repeat(2, axis=3)


def taken(step: TrainStep, layout: Layout, at: Mesh, steps: int = STEPS) -> dict[str, Any]:
    """Some steps: losses, norms, and all that they changed, whole."""
    numbers = []
    for number in range(steps):
        low, high = batch(number, at.data.index, at.data.size)
        numbers.append([float(x.asnumpy()) for x in step(Tensor(low), Tensor(high), RATE)])
    losses, norms = zip(*numbers, strict=True)
    return {"losses": losses, "norms": norms, "state": layout.join(checkpoint.changing(step))}


def largest_difference(ours: dict[str, Any], theirs: dict[str, Any], prefix: str) -> float:
    """Of arrays whose names begin so, by their names; relative to the array's largest number."""
    assert ours.keys() == theirs.keys()
    names = [name for name in ours if name.startswith(prefix)]
    assert names
    return max(
        float(np.abs(ours[name] - theirs[name]).max() / max(np.abs(theirs[name]).max(), 1e-3))
        for name in names
    )


def equality(at: Mesh, mode: str, fusion: str) -> dict[str, Any]:
    """20 steps with clip, next to one process: how far apart is what."""
    alone = taken(*lay_out(config(mode), ALONE), ALONE)
    step, layout = lay_out(config(mode, fusion), at)
    ours = taken(step, layout, at)
    pairs = {name: (ours[name], alone[name]) for name in ("losses", "norms")}
    layout.require_equal(list(step.get_parameters()), STEPS)
    return {
        **{name: float(np.max(np.abs(np.divide(*pair) - 1))) for name, pair in pairs.items()},
        "weights": largest_difference(ours["state"], alone["state"], "trunk"),
        "others": largest_difference(ours["state"], alone["state"], "head"),
        "average": largest_difference(ours["state"], alone["state"], "average."),
        "smallest norm": min(ours["norms"]),
        "norms of all ranks": at.spread(at.world.size, lambda rank: ours["norms"][-1]),
        "held": sum(math.prod(p.shape) for p in step.network.trainable_params()),
        "of": sum(
            math.prod(p.shape) for p in lay_out(config(mode), ALONE)[0].network.trainable_params()
        ),
    }


def first_gradients(at: Mesh, mode: str) -> dict[str, Any]:
    """Output, loss and every gradient of the first step, next to one process.

    Adam's first moment after one step is 0.1 of the gradient.
    """
    free = replace(config(mode), optimizer=OptimizerConfig(clip_norm=None))
    alone_step, alone_layout = lay_out(free, ALONE)
    step, layout = lay_out(free, at)
    low = Tensor(batch(0)[0])
    output = np.abs(step.network(low).asnumpy() - alone_step.network(low).asnumpy()).max()
    alone = taken(alone_step, alone_layout, ALONE, 1)
    ours = taken(step, layout, at, 1)
    return {
        "output": float(output),
        "loss": abs(ours["losses"][0] / alone["losses"][0] - 1),
        "gradients": largest_difference(ours["state"], alone["state"], "adam.first."),
    }


def one_nan(at: Mesh, mode: str) -> dict[str, Any]:
    """The last rank alone sees a nan: who changes anything?"""
    step, layout = lay_out(config(mode), at)
    taken(step, layout, at, 1)
    before = checkpoint.changing(step)
    low, high = batch(1, at.data.index, at.data.size)
    if at.data.index == at.data.size - 1:
        low = low * np.float32(np.nan)
    value, norm = step(Tensor(low), Tensor(high), RATE)
    after = checkpoint.changing(step)
    same = all(np.array_equal(after[name], before[name]) for name in before)
    finite = math.isfinite(float((value + norm).asnumpy()))
    low, high = batch(2, at.data.index, at.data.size)
    step(Tensor(low), Tensor(high), RATE)
    layout.require_equal(list(step.get_parameters()), 2)
    goes_on = any((p.asnumpy() != before[p.name]).any() for p in step.get_parameters())
    each = at.spread(at.world.size, lambda rank: (same, not finite, goes_on))
    return {"all the same": all(all(one) for one in each)}


def drift(at: Mesh, mode: str) -> dict[str, Any]:
    """The last rank's weights are off by one bit: what do the ranks say?"""
    step, layout = lay_out(config(mode), at)
    if at.world.index == at.world.size - 1:
        victim: Parameter = step.network.tail.weight
        values = victim.asnumpy().copy()
        values.view(np.int32).flat[5] ^= 1
        victim.copy_(Tensor(values))
    said = ""
    try:
        layout.require_equal(step.network.trainable_params(), 7)
    except TrainingError as error:
        said = str(error)
    return {"said": at.spread(at.world.size, lambda rank: said)}


def shared_work(at: Mesh) -> dict[str, Any]:
    """Work of any number of pieces, and an error on one rank."""

    def fail_at_1(number: int) -> int:
        if number == 1:
            raise DataError("piece 1 is bad")
        return number

    try:
        at.spread(5, fail_at_1)
        raised = ""
    except DataError as error:
        raised = str(error)
    who = at.spread(5, lambda number: at.world.index)
    return {
        "squares": [at.spread(count, lambda n: n**2 / 3) for count in (0, 1, 5)],
        "who": who,
        "raised": at.spread(at.world.size, lambda rank: raised),
        "any": [at.any(at.world.index == 1, False), at.any(False, True)],
    }


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "equality": equality,
    "first_gradients": first_gradients,
    "one_nan": one_nan,
    "drift": drift,
    "shared_work": shared_work,
}


def run(results: Path, tensor: int, parts: list[str]) -> int:
    """Each part is a function's name with its arguments: `equality:graph:buckets`."""
    at = mesh(*launch.join(), tensor)
    found = {}
    for part in parts:
        name, *words = part.split(":")
        found[part] = PARTS[name](at, *words)
    if at.first:
        results.write_text(json.dumps(found))
    at.wait()
    return 0


if __name__ == "__main__":
    if launch.is_scheduler():
        sys.exit(main([]))
    sys.exit(run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
