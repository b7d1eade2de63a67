"""What saving costs a run, and whether its memory stays flat: python benchmarks/endurance.py.

A save of EDSR-baseline and of EDSR (32 x 256), state and network: the run stands still while they
are copied, and a thread writes them to the disk, whose processor time the run lacks. Both should
take below 2 % of the time between two saves, `save_minutes`. And the resident memory of a tiny run
of 2,000 steps, with its loader, journal, validations and saves: does it grow?
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil
import record
from interleave import timed

from sr_app.data.cache import open_cache
from sr_app.data.folders import find
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.training import checkpoint
from sr_app.training.config import (
    BatchConfig,
    OptimizerConfig,
    RunConfig,
    ValidationConfig,
)
from sr_app.training.loop import build, train
from sr_app.training.progress import Progress

MB = 1e6
NETWORKS = {"EDSR-baseline": EDSRConfig(), "EDSR": EDSRConfig(blocks=32, features=256)}
QUICK = {"tiny": EDSRConfig(blocks=2, features=8)}


def main() -> None:
    """Measure, print, write."""
    given = record.arguments(__doc__).parse_args()
    steps, every, repeats = (40, 10, 2) if given.quick else (2000, 100, 5)
    memory = memory_of(steps, every)
    rows = [[step, f"{megabytes:.1f}"] for step, megabytes in memory.items()]
    print(record.table(["after step", "resident MB"], rows))
    saves = {
        name: cost_of(RunConfig(network=network), repeats)
        for name, network in (QUICK if given.quick else NETWORKS).items()
    }
    rows = [[name, *(f"{figure:.3g}" for figure in cost.values())] for name, cost in saves.items()]
    print("\n" + record.table(["network", *next(iter(saves.values()))], rows))
    settings = {"steps": steps, "save_minutes": RunConfig().save_minutes, "saves": repeats}
    figures = {"saves": saves, "resident_mb": {str(step): mb for step, mb in memory.items()}}
    record.write(given, settings, figures)


def cost_of(config: RunConfig, repeats: int) -> dict[str, float]:
    """Of a save as a run makes it: megabytes, median seconds, share of the time between two."""
    step = build(config)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:  # /tmp may be memory
        folder = Path(name)
        copying, writing, computing = [], [], []
        for number in range(1, repeats + 1):
            begin, used = time.perf_counter(), time.process_time()
            arrays, network = checkpoint.changing(step), checkpoint.averaged(step)
            copied, progress = time.perf_counter(), Progress(number)
            checkpoint.save_state(folder, arrays, progress, config, "key", [])
            path = folder / checkpoint.LATEST
            checkpoint.save_network(path, network, config, progress, None)
            copying.append(copied - begin)
            writing.append(time.perf_counter() - copied)
            computing.append(time.process_time() - used)
        (newest, *_) = checkpoint.states(folder)
        reading = timed(partial(weights.read_arrays, newest))
        size = newest.stat().st_size + (folder / checkpoint.LATEST).stat().st_size
    used = statistics.median(computing)  # the copying's, too
    return {
        "megabytes": size / MB,
        "seconds to copy": statistics.median(copying),
        "seconds to write": statistics.median(writing),
        "processor seconds": used,
        "percent of a run": 100 * used / (60 * config.save_minutes),
        "seconds to read": reading,
    }


def memory_of(steps: int, every: int) -> dict[int, float]:
    """Resident megabytes of this process at each validation of a tiny run, by step."""
    config = RunConfig(
        steps=steps,
        network=EDSRConfig(blocks=2, features=8),
        batch=BatchConfig(size=4, patch=12),
        optimizer=OptimizerConfig(learning_rate=1e-3),
        validation=ValidationConfig(every=every),
    )
    resident: list[float] = []

    def validate(arrays: weights.Arrays) -> Score:
        resident.append(psutil.Process().memory_info().rss / MB)
        return Score(20.0, 0.5)

    with tempfile.TemporaryDirectory() as name:
        train(config, Path(name), open_cache(find("sample", 2), 2), validate, print)
    return {every * (number + 1): megabytes for number, megabytes in enumerate(resident)}


if __name__ == "__main__":
    main()
