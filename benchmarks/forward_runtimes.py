"""A picture through the same network as an ONNX file: ONNX Runtime or OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from case import Forward, Pixels
from interleave import THREADS, Take


def start(
    case: Forward, folder: str, runtime: Literal["onnxruntime", "openvino"], output: str
) -> Take:
    """A call of the network; leaves its first result."""
    make = {"onnxruntime": onnxruntime, "openvino": openvino}[runtime]
    forward = make(Path(folder) / "network.onnx")

    return case.calls(forward, output)


def onnxruntime(file: Path) -> Callable[[Pixels], Pixels]:
    """The file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda low: session.run(None, {"low": low})[0]


def openvino(file: Path) -> Callable[[Pixels], Pixels]:
    """The file in OpenVINO, in float32 (some processors would round to bfloat16 by default)."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(str(file), "CPU", settings)
    return lambda low: compiled([low])[0]
