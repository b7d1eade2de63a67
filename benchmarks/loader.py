"""How many patches a second the loader gives: python benchmarks/loader.py [--data SET].

Two figures, each the median of several rounds: `batch` called in a row, and the same through the
thread and queue of `batches`, as training takes them. The last line is JSON, to be compared with
that of benchmarks/train_step.py: the loader should give at least 10 times what the step takes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import sr_app
from sr_app.data.cache import open_cache
from sr_app.data.folders import find
from sr_app.data.patches import Batch, batch, batches

ROUNDS = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data", default="sample", help="a set's name or path (sample)")
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--patch", type=int, default=48, help="LR patch side (48)")
    parser.add_argument("--batch", type=int, default=16, help="patches in a batch (16)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each of 5 rounds (1)")
    given = parser.parse_args()

    start = time.perf_counter()
    cache = open_cache(find(given.data, given.scale), given.scale)
    opened = time.perf_counter() - start
    make = partial(batch, cache, seed=0, batch_size=given.batch, patch=given.patch)
    called = (make(step=step) for step in range(2**62))
    stream = batches(cache, seed=0, start_step=0, batch_size=given.batch, patch=given.patch)
    with contextlib.closing(stream):
        rates = {"batch": rate(called, given.seconds), "batches": rate(stream, given.seconds)}

    versions = f"sr_app {sr_app.__version__}, Python {platform.python_version()}, NumPy "
    print(f"{processor()}, {os.cpu_count()} CPUs; {versions}{np.__version__}")
    print(f"{cache.name}: {len(cache)} pictures, cache opened in {opened:.2f} s")
    shape = {"scale": given.scale, "patch": given.patch, "batch": given.batch}
    print(json.dumps({"data": cache.name, **shape, "patches_per_second": rates}))


def rate(stream: Iterator[Batch], seconds: float) -> int:
    """Patches a second: the median of the rounds, after a first batch that is not counted."""
    next(stream)
    figures = []
    for _ in range(ROUNDS):
        patches, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            patches += len(next(stream)[0])
        figures.append(patches / elapsed)
    return round(statistics.median(figures))


def processor() -> str:
    """The processor's name, from Linux where it tells."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
