"""What the program finds on this machine: versions, device, operators, threads, speed."""

import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import version

import mindspore as ms
import numpy as np
from mindspore import Tensor

import sr_app
from sr_app import kernels, threads
from sr_app.nets.layers import conv3x3

SECONDS = 1.0
FEATURES, SIDE = 64, 128


def findings() -> Iterator[tuple[str, str]]:
    """(what, what was found), the last of them a convolution's speed, measured for a second."""
    device = str(ms.get_context("device_target"))
    chosen = kernels.choice(device)
    ours = f"ours, {chosen.library}"
    yield (
        "versions",
        ", ".join(
            [
                f"sr_app {sr_app.__version__}",
                f"Python {platform.python_version()}",
                *(f"{name} {version(name)}" for name in ("mindspore", "numpy")),
            ]
        ),
    )
    yield "device", device
    yield "convolution", ours if chosen.library else f"MindSpore's own: {chosen.reason}"
    if chosen.library:
        yield "instructions", kernels.instruction_set(chosen.library)
    yield "threads", f"{threads.count()} of {os.cpu_count()} cores (SR_THREADS sets them)"
    yield "speed", f"{_speed():.0f} GFLOP/s, {FEATURES} to {FEATURES} features, {SIDE} x {SIDE}"


def _speed() -> float:
    """The best of a second's calls of a convolution, in 1e9 operations a second."""
    convolution = conv3x3(FEATURES, FEATURES)
    x = Tensor(np.ones((1, FEATURES, SIDE, SIDE), np.float32))
    convolution(x).asnumpy()
    best, end = float("inf"), time.perf_counter() + SECONDS
    while (begin := time.perf_counter()) < end:
        convolution(x).asnumpy()
        best = min(best, time.perf_counter() - begin)
    return 2 * 9 * FEATURES**2 * SIDE**2 / best / 1e9
