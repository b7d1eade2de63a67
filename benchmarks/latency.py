"""A picture through EDSR-baseline x2, ours next to all that could do it: python
benchmarks/latency.py [--quick] [--large].

MindSpore's PyNative mode and its `ms.jit` with its own operators; ours in PyNative, with static
parts (`--engine mindspore`), compiled as a whole, without MindSpore (`--engine native`); PyTorch
(eager, channels_last, compiled), ONNX Runtime, OpenVINO: the same weights, the same picture of 48,
128 and 256 pixels. Each is a process of its own on two cores and two threads, asked in turn in one
run and frozen in between. Their results must agree to 0.01 of 255. `--large` is one picture of
1356 x 2040 through tiles instead, once, with what a first call costs, by one side of each kind
(results/latency_large.json).
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import record
from case import Forward
from interleave import THREADS, Worker, interleaved, use_two_cores

BASE = "MindSpore PyNative"
OURS = "ours, static parts"
NATIVE = "ours, without MindSpore"
SIDES: dict[str, tuple[str, str, dict[str, Any]]] = {
    BASE: ("mindspore", "forward_mindspore", {"kernels": "off", "how": "pynative"}),
    "MindSpore jit": ("mindspore", "forward_mindspore", {"kernels": "off", "how": "jit"}),
    "ours, PyNative": ("mindspore", "forward_mindspore", {"kernels": "on", "how": "pynative"}),
    OURS: ("mindspore", "forward_mindspore", {"kernels": "on", "how": "static"}),
    "ours, jit": ("mindspore", "forward_mindspore", {"kernels": "on", "how": "jit"}),
    NATIVE: ("sr_app", "forward_runtimes", {"runtime": "native"}),
    "PyTorch": ("torch", "forward_pytorch", {"how": "eager"}),
    "PyTorch channels_last": ("torch", "forward_pytorch", {"how": "channels_last"}),
    "PyTorch compiled": ("torch", "forward_pytorch", {"how": "compile"}),
    "ONNX Runtime": ("onnxruntime", "forward_runtimes", {"runtime": "onnxruntime"}),
    "OpenVINO": ("openvino", "forward_runtimes", {"runtime": "openvino"}),
}
"""Name -> the package it needs, the module, its settings. The first leaves the weights."""

PEERS = [name for name, (package, _, _) in SIDES.items() if package not in ("mindspore", "sr_app")]
LARGE = [BASE, OURS, NATIVE, "PyTorch channels_last", "ONNX Runtime", "OpenVINO"]
TOLERANCE = 0.01  # of 255; the order of sums gives 1e-3 at most
MATRIX = 2048  # rows and columns
CALLS = 4  # in a turn, at most


def main() -> None:
    """Measure, print, write."""
    parser = record.arguments(__doc__)
    parser.add_argument("--large", action="store_true", help="the large picture instead")
    given = parser.parse_args()
    use_two_cores()
    sides = [name for name, (package, _, _) in SIDES.items() if find_spec(package) is not None]
    if left_out := [name for name in SIDES if name not in sides]:
        print(f"not installed here, so left out: {', '.join(left_out)}")
    if given.quick:
        cases, rounds = [Forward(12, 16, blocks=2, features=8)], 2
    elif given.large:
        cases, rounds = [Forward(1356, 2040, tile=512)], 0
        sides = [name for name in sides if name in LARGE]
        given.json = given.json or record.RESULTS / "latency_large.json"
    else:
        cases, rounds = [Forward(side, side) for side in (48, 128, 256)], 7

    settings = {"cases": [asdict(each) for each in cases], "rounds": rounds, "threads": THREADS}
    head = ["", "median ms", "best", "/ PyNative", "/ best peer", "GFLOP/s", "peak MB"]
    figures = {}
    for case in cases:  # written after each, so that what was measured isn't lost
        size = f"{case.height} x {case.width}"
        figures[size] = compare(case, sides, rounds)
        print("\n" + record.table(head, rows_of(size, figures[size])))
        record.write(given, settings, figures)


def compare(case: Forward, sides: list[str], rounds: int) -> dict[str, Any]:
    """Figures of each side, and the machine's peak in the same run."""
    print(f"{case.height} x {case.width}: starting {len(sides)} processes", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers, firsts = {}, {}
        for name in sides:
            _, module, settings = SIDES[name]
            output = folder / f"{name}.npy"
            worker = Worker(module, case=case, folder=str(folder), output=str(output), **settings)
            workers[name] = stack.enter_context(worker)
            firsts[name] = [worker.ask(1).seconds]
            worker.ask(2 if rounds else 0)  # what is compiled or chosen after the first call
            error = difference(folder / f"{BASE}.npy", output)
            print(f"  first call {firsts[name][0]:.2f} s, off by {error:.1e}: {name}", flush=True)
            if not error < TOLERANCE:
                sys.exit(f"error: {name} differs from {BASE} by {error}")
        matrix = stack.enter_context(Worker("matrix_product", side=MATRIX))

        calls = min(CALLS, max(1, 32768 // (case.height * case.width)))
        turns = {name: partial(turn, worker, calls) for name, worker in workers.items()}
        peak = 2e-9 * MATRIX**3 / min(turn(matrix, 1) for _ in range(5))
        seconds = interleaved(turns, rounds) if rounds else firsts
        memory = {name: worker.ask(0).peak_mb for name, worker in workers.items()}
    times = {name: {"median": median(each), "best": min(each)} for name, each in seconds.items()}
    rivals = [times[name]["median"] for name in PEERS if name in times]
    return {
        "peak_gflops": peak,
        "sides": {
            name: {
                "milliseconds": {key: 1000 * value for key, value in each.items()},
                "over_pynative": each["median"] / times[BASE]["median"],
                **({"over_best_peer": each["median"] / min(rivals)} if rivals else {}),
                "gflops": 1e-9 * case.flops / each["median"],
                "peak_mb": memory[name],
            }
            for name, each in times.items()
        },
    }


def turn(worker: Worker, calls: int) -> float:
    """Seconds of one call, by the worker's own clock, as the mean of some in a row."""
    return worker.ask(calls).seconds / calls


def difference(one: Path, other: Path) -> float:
    """The largest, of two results."""
    return float(np.abs(np.load(one) - np.load(other)).max())


def rows_of(size: str, figure: dict[str, Any]) -> list[list[str]]:
    """The table's rows of one picture."""
    rows = [
        [
            f"{size}, {name}",
            *(f"{side['milliseconds'][key]:.1f}" for key in ("median", "best")),
            f"{side['over_pynative']:.2f}",
            f"{side.get('over_best_peer', float('nan')):.2f}",
            f"{side['gflops']:.0f}",
            f"{side['peak_mb']:.0f}",
        ]
        for name, side in figure["sides"].items()
    ]
    return [
        *rows,
        [f"{size}, a matrix product", "", "", "", "", f"{figure['peak_gflops']:.0f}", ""],
    ]


if __name__ == "__main__":
    main()
