"""From the shell to the written picture: python benchmarks/cold_start.py [--quick].

`upscale` of a picture of 256 x 256 pixels by each engine that is installed, in a new process each
time, turn about on two cores; and where the time goes, in another process: Python and the imports
of the command, the engine's own, building the network, its first call, a later one. What the first
call takes longer than a later one is compilation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import get_args

import record
from interleave import THREADS, use_two_cores
from upscale import photograph

from sr_app.inference.engines import EngineName, installed

PHASES = ("imports", "engine's imports", "build", "compile", "run")
SIDE = Path(__file__).with_name("cold_start_side.py")
LIMIT_SECONDS = 120.0  # for one process


def main() -> None:
    """Measure, print, write."""
    given = record.arguments(__doc__).parse_args()
    use_two_cores()
    side, rounds = (48, 1) if given.quick else (256, 7)
    names = [name for name in get_args(EngineName) if installed(name)]
    if left_out := [name for name in get_args(EngineName) if name not in names]:
        print(f"not installed here, so left out: {', '.join(left_out)}")
    with tempfile.TemporaryDirectory() as folder:
        picture = photograph(Path(folder), side)
        whole: dict[str, list[float]] = {name: [] for name in names}
        parts: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                whole[name].append(timed(name, picture, Path(folder) / f"{name}{turn}.png"))
                begun = time.time()
                told = json.loads(python(str(SIDE), name, str(picture)))
                told["imports"] = told.pop("imported at") - begun
                parts[name].append(told)
    figures = {
        name: {
            "seconds": {"median": median(whole[name]), "best": min(whole[name])},
            "phases": {phase: median(each[phase] for each in parts[name]) for phase in PHASES},
        }
        for name in names
    }
    rows = [
        [
            name,
            *(f"{figures[name]['seconds'][key]:.2f}" for key in ("median", "best")),
            *(f"{figures[name]['phases'][phase]:.2f}" for phase in PHASES),
        ]
        for name in names
    ]
    print("\n" + record.table(["engine", "whole s", "best", *PHASES], rows))
    record.write(given, {"side": side, "rounds": rounds, "threads": THREADS}, figures)


def timed(engine: str, picture: Path, target: Path) -> float:
    """Seconds of the whole command."""
    begin = time.perf_counter()
    python("-m", "sr_app", "upscale", str(picture), "-o", str(target), "--engine", engine)
    return time.perf_counter() - begin


def python(*words: str) -> str:
    """What a new process prints; it may keep its compiled modules, as a user's does."""
    unset = "PYTHONDONTWRITEBYTECODE"
    environment = {key: value for key, value in os.environ.items() if key != unset}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        env={**environment, "SR_THREADS": str(THREADS)},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-1000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
