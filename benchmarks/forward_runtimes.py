"""A picture through the same network without MindSpore: ONNX Runtime or OpenVINO with an ONNX file,
or our operators alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from case import Forward, Pixels
from interleave import THREADS, Take

FILE = "network.onnx"


def start(
    case: Forward, folder: str, runtime: Literal["native", "onnxruntime", "openvino"], output: str
) -> Take:
    """A call of the network; leaves its first result."""
    make = {"native": native, "onnxruntime": onnxruntime, "openvino": openvino}[runtime]
    return case.calls(make(Path(folder)), output)


def native(folder: Path) -> Callable[[Pixels], Pixels]:
    """Our operators, as `--engine native` uses them."""
    import sr_app

    return sr_app.load(folder / "network.safetensors", engine="native").engine.forward


def onnxruntime(folder: Path) -> Callable[[Pixels], Pixels]:
    """The file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(folder / FILE, options, providers=providers)
    return lambda low: session.run(None, {"low": low})[0]


def openvino(folder: Path) -> Callable[[Pixels], Pixels]:
    """The file in OpenVINO, in float32 (some processors would round to bfloat16 by default)."""
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(str(folder / FILE), "CPU", settings)
    return lambda low: compiled([low])[0]
