"""Our training step next to the same step in PyTorch: python benchmarks/train_step.py [--quick].

EDSR-baseline x2, LR patch 48, batch 16 and 4: forward, L1, backward, clip, Adam, moving average of
the weights. Six processes on two cores and two threads each, asked in turn in one run: ours in
GRAPH_MODE (keeping all that the backward needs, and with `memory` low), the same by MindSpore's own
operators, and PyTorch as it is, with the channels_last layout, and compiled. They start from the
same weights and see the same batch; that their first losses agree shows that the same is measured.
"""

from __future__ import annotations

import math
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import record
from case import Case, quick
from interleave import THREADS, Worker, interleaved, rates, ratios, use_two_cores

OURS = "ours"
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("step_mindspore", {}),
    "ours, low memory": ("step_mindspore", {"memory": "low"}),
    "MindSpore's operators": ("step_mindspore", {"kernels": "off"}),
    "PyTorch": ("step_pytorch", {}),
    "PyTorch channels_last": ("step_pytorch", {"channels_last": True}),
    "PyTorch compiled": ("step_pytorch", {"compiled": True}),
}
PRODUCT = "a matrix product"
SIDE_OF_PRODUCT = 2048
FIRST_STEPS = 3
KEYS = ("median", "best")


def main() -> None:
    """Measure, print, write."""
    given = record.arguments(__doc__).parse_args()
    if find_spec("torch") is None:
        sys.exit("error: PyTorch is the other side, and isn't installed: pip install '.[convert]'")
    use_two_cores()
    cases = [quick(2)] if given.quick else [Case(batch=16), Case(batch=4)]
    rounds = 2 if given.quick else 5

    figures = {}
    for case in cases:
        steps = 1 if given.quick else 16 // case.batch  # a turn is 16 patches: about two seconds
        figures[f"batch {case.batch}"] = compare(case, steps, rounds)
    rows = [row for batch, sides in figures.items() for row in rows_of(batch, sides)]
    head = ["", "median patches/s", "best", "ours / it (median)", "(best)", "GFLOP/s"]
    head += ["peak MB", "of the step"]
    print("\n" + record.table(head, rows))
    settings = {"cases": [asdict(case) for case in cases], "rounds": rounds, "threads": THREADS}
    record.write(given, settings, figures)


def compare(case: Case, steps: int, rounds: int) -> dict[str, Any]:
    """Figures of each side: patches a second, ours over its, peak memory, first losses."""
    print(f"batch {case.batch}: starting {len(SIDES)} processes", flush=True)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        shared = {"case": case, "weights_file": str(Path(folder) / "weights.npz")}

        # One after the other: the first leaves its weights for the others, and none builds while
        # another does
        workers, losses, before = {}, {}, {}
        for name, (module, settings) in SIDES.items():
            workers[name] = stack.enter_context(Worker(module, **shared, **settings))
            before[name] = workers[name].ask(0).peak_mb
            losses[name] = workers[name].ask(FIRST_STEPS).losses
            print(f"  first losses {losses[name]} ({name})", flush=True)
            require_agreement(losses[OURS], losses[name], name)

        print(f"  {rounds} rounds of {steps} steps each", flush=True)
        product = stack.enter_context(Worker("matrix_product", side=SIDE_OF_PRODUCT))
        product.ask(1)
        turns = {name: partial(turn, worker, steps) for name, worker in workers.items()}
        seconds = interleaved({**turns, PRODUCT: partial(turn, product, 1)}, rounds)
        peaks = {name: worker.ask(0).peak_mb for name, worker in workers.items()}
    speed = {name: rates(steps * case.batch, seconds[name]) for name in workers}
    figures = {
        name: {
            "patches_per_second": speed[name],
            "ours_over_it": ratios(speed[OURS], speed[name]),
            "gflops": rates(steps * case.operations / 1e9, seconds[name]),
            "peak_mb": peaks[name],
            "step_mb": peaks[name] - before[name],
            "first_losses": losses[name],
        }
        for name in workers
    }
    return {**figures, PRODUCT: {"gflops": rates(2 * SIDE_OF_PRODUCT**3 / 1e9, seconds[PRODUCT])}}


def turn(worker: Worker, steps: int) -> float:
    """Seconds of so many steps, by the worker's own clock."""
    return worker.ask(steps).seconds


def require_agreement(ours: list[float], theirs: list[float], name: str) -> None:
    """End the program unless the losses agree to 1e-3: else two different things are compared."""
    for mine, other in zip(ours, theirs, strict=True):
        if not math.isclose(mine, other, rel_tol=1e-3):
            sys.exit(f"error: the first losses differ: ours {ours}, {name} {theirs}")


def rows_of(batch: str, sides: dict[str, Any]) -> list[list[str]]:
    """The table's rows of one batch size."""
    rows = []
    for name, side in sides.items():
        row = [f"{batch}, {name}", "", "", "", "", f"{side['gflops']['median']:.0f}", "", ""]
        if name != PRODUCT:
            speed, ratio = side["patches_per_second"], side["ours_over_it"]
            row[1:5] = [f"{figure[key]:.2f}" for figure in (speed, ratio) for key in KEYS]
            row[6:] = [f"{side[key]:.0f}" for key in ("peak_mb", "step_mb")]
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
