"""Several ranks on one machine: python benchmarks/ranks.py [--quick].

With 2 and 4 processes: the mean of EDSR-baseline's and EDSR's gradients in buckets next to one
all-reduce for each tensor; the clip whose ranks each square a share next to one that squares all
everywhere; and the whole training step of EDSR-baseline, with and without buckets, for one process,
too. The sides take turns within the same processes, in GRAPH_MODE.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import record
from case import Case, quick
from interleave import interleaved, timed
from mindspore import Tensor
from step_mindspore import run_config

from sr_app.nets.description import EDSRConfig
from sr_app.nets.table import make
from sr_app.parallel import launch
from sr_app.parallel.buckets import BucketMean, TensorMean
from sr_app.parallel.clip import ClipByGlobalNorm
from sr_app.parallel.mesh import Mesh, mesh
from sr_app.training.config import ParallelConfig
from sr_app.training.loop import lay_out
from sr_app.training.step import TrainStep

MEGABYTES = 32
NETWORKS = {
    "EDSR-baseline": EDSRConfig(),
    "EDSR": EDSRConfig(blocks=32, features=256, residual_scale=0.1),
}
SMALL = {"tiny": EDSRConfig(blocks=2, features=8)}
Turn = Callable[[], object]


def main() -> None:
    """Start the ranks twice; print, write."""
    given = record.arguments(__doc__).parse_args()
    figures: dict[str, Any] = {}
    for ranks in (1, 2) if given.quick else (1, 2, 4):
        name = "1 process" if ranks == 1 else f"{ranks} processes"
        figures[name] = record.on_ranks(__file__, ranks, given.quick)
    head = ["processes", "what", "sides", "milliseconds", "ratio", "collectives"]
    rows = [
        [world.partition(" ")[0], what, " / ".join(sides), *numbers(sides)]
        for world, measured in figures.items()
        for what, sides in measured.items()
    ]
    print("\n" + record.table(head, rows))
    case = quick(2) if given.quick else Case(batch=4, patch=24)
    record.write(given, {"bucket_mb": MEGABYTES, "step": asdict(case)}, figures)


def numbers(sides: dict[str, Any]) -> list[str]:
    """Milliseconds, the second's over the first's, and the collectives, as a table has them."""
    first, second = sides.values()
    return [
        f"{first['milliseconds']:.1f} / {second['milliseconds']:.1f}",
        f"{second['milliseconds'] / first['milliseconds']:.2f}",
        f"{first.get('collectives', 0)} / {second.get('collectives', 0)}",
    ]


def on_a_rank(file: Path, small: bool) -> None:
    """What each rank does; the first one writes."""
    at = mesh(*launch.join(), 1)
    ms.set_context(mode=ms.GRAPH_MODE)
    rounds = 3 if small else 15
    figures = {}
    networks = SMALL if small else NETWORKS
    for name, config in networks.items() if at.world.size > 1 else ():
        shapes = [tuple(p.shape) for p in make(config).trainable_params()]
        few = rounds if config.features < 256 else 5  # a turn with EDSR's takes seconds
        figures[f"mean of {name}'s gradients"] = mean_sides(at, shapes, few)
        figures[f"norm of {name}'s gradients"] = clip_sides(at, shapes, few)
    case = quick(4) if small else Case(batch=4, patch=24)
    figures["step of " + ("a tiny network" if small else "EDSR-baseline")] = step_sides(
        at, case, rounds
    )
    if at.first:
        file.write_text(json.dumps(figures))
    at.wait()


def mean_sides(at: Mesh, shapes: list[tuple[int, ...]], rounds: int) -> dict[str, Any]:
    """Buckets next to single tensors."""
    gradients = noise(shapes)
    value = Tensor(1.0, ms.float32)
    buckets = BucketMean(shapes, at.data, MEGABYTES * 2**20)
    single = TensorMean(at.data, fused=False)
    turns = {
        "buckets": (lambda: done(buckets(value, gradients)[0]), len(buckets.buckets)),
        "each tensor": (lambda: done(single(value, gradients)[0]), len(shapes) + 1),
    }
    return measured(at, turns, rounds)


def clip_sides(at: Mesh, shapes: list[tuple[int, ...]], rounds: int) -> dict[str, Any]:
    """A share of the squares on each rank next to all of them on every rank."""
    gradients = noise(shapes)
    sizes = [prod(shape) for shape in shapes]
    shared = ClipByGlobalNorm(None, sizes, at, [False] * len(sizes))
    everywhere = ClipByGlobalNorm(None, sizes)
    turns = {
        "shared": (lambda: done(shared(gradients)[1]), 1),
        "everywhere": (lambda: done(everywhere(gradients)[1]), 0),
    }
    return measured(at, turns, rounds)


def step_sides(at: Mesh, case: Case, rounds: int) -> dict[str, Any]:
    """The whole step; each rank's batch is its part of the case's."""
    low, high = (Tensor(np.split(array, at.data.size)[at.data.index]) for array in case.inputs())
    rate = Tensor(case.learning_rate, ms.float32)
    turns: dict[str, tuple[Turn, int]] = {}
    sides = {
        "buckets": ParallelConfig(bucket_mb=MEGABYTES),
        "each tensor": ParallelConfig(fusion="none"),
    }
    for name, parallel in sides.items():
        step, _ = lay_out(replace(run_config(case), parallel=parallel), at)
        turns[name] = (partial(take, step, low, high, rate), collectives(step))
    return measured(at, turns, rounds)


def collectives(step: TrainStep) -> int:
    """All-reduces in a step: of the mean, and one of the clip."""
    if isinstance(step.reduce, BucketMean):
        return len(step.reduce.buckets) + 1
    if isinstance(step.reduce, TensorMean):
        return len(step.optimizer.parameters) + 2
    return 0


def take(step: TrainStep, low: Tensor, high: Tensor, rate: Tensor) -> object:
    """One step, waited for."""
    return done(step(low, high, rate)[0])


def noise(shapes: list[tuple[int, ...]]) -> tuple[Tensor, ...]:
    """Inputs of the compiled graph: without `mutable` a tuple is a constant of it."""
    random = np.random.default_rng(0)
    made = tuple(Tensor(random.standard_normal(shape, np.float32)) for shape in shapes)
    return ms.mutable(made)  # type: ignore[no-any-return]


def done(result: Tensor) -> object:
    """Wait for it."""
    return result.asnumpy()


def measured(at: Mesh, sides: dict[str, tuple[Turn, int]], rounds: int) -> dict[str, Any]:
    """Median milliseconds on this rank; before each turn all ranks wait for one another."""

    def taken(turn: Turn) -> float:
        at.wait()
        return timed(turn)

    turns = {name: partial(taken, turn) for name, (turn, _) in sides.items()}
    interleaved(turns, 2)  # compiles, and warms up
    figures = {}
    for name, each in interleaved(turns, rounds).items():
        figures[name] = {"milliseconds": 1000 * float(np.median(each))}
        if (count := sides[name][1]) > 0:
            figures[name]["collectives"] = count
    return figures


if __name__ == "__main__":
    if launch.is_scheduler():
        launch.join()
    elif launch.joined():
        on_a_rank(Path(sys.argv[2]), "--quick" in sys.argv)
    else:
        main()
