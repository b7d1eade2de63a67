"""The loader's patches a second next to the training step's: python benchmarks/loader.py [--quick].

Batch 16, LR patch 48, scale 2. `batch` called in a row, the same through the thread and queue of
`batches`, as training takes them, and the step of EDSR-baseline alone; turn about in one process on
two cores. `batches` should give at least 10 times what the step takes, so that training never waits
for data.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import record
from case import SCALE, Case, quick
from interleave import interleaved, rates, ratios, timed, use_two_cores
from step_mindspore import run_config, stepper

from sr_app.data.cache import open_cache
from sr_app.data.folders import find
from sr_app.data.patches import Batch, batch, batches
from sr_app.training.loop import build

WANTED = 10


def main() -> None:
    """Measure, print, write."""
    parser = record.arguments(__doc__)
    parser.add_argument("--data", default="sample", help="a set's name or path (sample)")
    given = parser.parse_args()
    use_two_cores()
    case = quick(2) if given.quick else Case(batch=16)
    taken, rounds = (50, 2) if given.quick else (1000, 5)  # batches in a turn of the loader

    cache = open_cache(find(given.data, SCALE), SCALE)
    print(f"{cache.name}: {len(cache)} pictures", flush=True)
    settings = {"data": cache.name, "pictures": len(cache), "case": asdict(case)}
    sizes = {"seed": 0, "batch_size": case.batch, "patch": case.patch}
    calls = (batch(cache, step=step, **sizes) for step in itertools.count())
    step = stepper(build(run_config(case)), case)
    with contextlib.closing(batches(cache, start_step=0, **sizes)) as stream:
        turns = {
            "batch": partial(timed, partial(take, calls, taken)),
            "batches": partial(timed, partial(take, stream, taken)),
            "step": partial(timed, step),
        }
        for turn in turns.values():
            turn()  # the first of each isn't counted: it compiles, and reads the pictures
        seconds = interleaved(turns, rounds)

    amounts = {"batch": taken, "batches": taken, "step": 1}
    speed = {name: rates(amounts[name] * case.batch, seconds[name]) for name in turns}
    ratio = ratios(speed["batches"], speed["step"])
    rows = [
        [name, *(f"{rate[key]:.1f}" for key in ("median", "best"))] for name, rate in speed.items()
    ]
    rows.append(["batches / step", *(f"{ratio[key]:.1f}" for key in ("median", "best"))])
    print("\n" + record.table(["patches a second", "median", "best"], rows))
    enough = "enough" if ratio["median"] >= WANTED else "NOT ENOUGH"
    print(f"at least {WANTED} times the step's is wanted: {enough}")
    figures = {"patches_per_second": speed, "loader_over_step": ratio}
    record.write(given, {**settings, "taken": taken, "rounds": rounds}, figures)


def take(stream: Iterator[Batch], number: int) -> None:
    """Take so many batches and forget them."""
    for _ in range(number):
        next(stream)


if __name__ == "__main__":
    main()
