"""What a rank holds: python benchmarks/memory.py [--quick].

EDSR (32 x 256, x2) split over 1, 2 and 4 ranks: the bytes of its parameters, gradients, moments
and average, counted; and the peak of the process's memory over two training steps in GRAPH_MODE,
next to what it held before the network was made.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any

import record
from case import Case, quick
from interleave import timed
from step_mindspore import run_config, stepper

from sr_app.nets.description import EDSRConfig
from sr_app.parallel import launch
from sr_app.parallel.mesh import ALONE, mesh
from sr_app.training.loop import lay_out

FULL = EDSRConfig(blocks=32, features=256, residual_scale=0.1)
MB = 1e6


def main() -> None:
    """Start the ranks for each size; print, write."""
    given = record.arguments(__doc__).parse_args()
    figures: dict[str, Any] = {}
    for ranks in (1, 2) if given.quick else (1, 2, 4):
        figures[f"tensor {ranks}"] = record.on_ranks(__file__, ranks, given.quick)
    head = ["megabytes a rank", *next(iter(figures.values()))]
    rows = [[name, *(f"{x:.1f}" for x in sizes.values())] for name, sizes in figures.items()]
    print("\n" + record.table(head, rows))
    case = quick(1) if given.quick else Case(batch=1, patch=24)
    record.write(given, {"network": asdict(FULL), "step": asdict(case)}, figures)


def on_a_rank(file: Path, small: bool) -> None:
    """What each rank does; the first one writes."""
    rank, size = launch.join()
    at = mesh(rank, size, size) if size > 1 else ALONE
    case = quick(1) if small else Case(batch=1, patch=24)
    config = run_config(case)
    if not small:
        config = replace(config, network=FULL)
    before = peak_mb()
    step, _ = lay_out(config, at)
    held = sum(prod(p.shape) for p in step.optimizer.parameters) * 4 / MB
    once = stepper(step, case)
    seconds = [timed(once) for _ in range(2)]
    figures = {
        "parameters": held,
        "gradients": held,
        "moments": 2 * held,
        "average": held,
        "together": 5 * held,
        "peak before": before,
        "peak": peak_mb(),
        "seconds a step": seconds[-1],
    }
    if at.first:
        file.write_text(json.dumps(figures))
    at.wait()


def peak_mb() -> float:
    """The most that this process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


if __name__ == "__main__":
    if launch.is_scheduler():
        launch.join()
    elif launch.joined():
        on_a_rank(Path(sys.argv[2]), "--quick" in sys.argv)
    else:
        main()
