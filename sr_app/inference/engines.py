"""What computes a network: our operators alone, MindSpore, ONNX Runtime or OpenVINO, behind one
small interface."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from sr_app import kernels, threads
from sr_app.errors import ConfigError
from sr_app.nets.table import NetworkConfig
from sr_app.nets.weights import Arrays

Pixels = NDArray[np.float32]
EngineName = Literal["native", "mindspore", "onnxruntime", "openvino"]
LIGHT: tuple[EngineName, ...] = ("openvino", "onnxruntime")
"""Those that load no MindSpore, the faster first by results/latency.json."""

ASCEND = Path("/dev/davinci_manager")
"""The driver's device file: where it is, MindSpore is the one that uses the accelerator."""


Mode = Literal["jit", "pynative"]

Part = Literal["trunk", "network"]
"""What is computed or exported: the residual blocks and their closing convolution with its skip,
(n, features, h, w) -> the same; or all, (n, 3, h, w) -> (n, 3, scale * h, scale * w)."""


Look = Callable[[str, Pixels], None]
BOUNDARY = ("head", "trunk")
"""The cells whose results can be seen without leaving what is compiled: see `Look`, which is told
(name, result)."""


class Engine(Protocol):
    """A network that is ready to compute."""

    name: str

    def forward(self, low: Pixels) -> Pixels:
        """(n, 3, h, w) -> (n, 3, scale * h, scale * w), RGB, 0..255, not clamped; any h and w."""

    def fill(self, arrays: Arrays) -> None:
        """Take other weights; the next call uses them."""


def installed(name: EngineName) -> bool:
    """Whether this engine can be had here: our operators, MindSpore, or a package and `onnx`, which
    hands it the network."""
    if name == "native":
        return kernels.choice("CPU").library is not None
    return name == "mindspore" or all(find_spec(package) for package in (name, "onnx"))


def chosen(wanted: str, mode: Mode) -> EngineName:
    """The engine that --engine and --mode mean; ConfigError for one that isn't there."""
    if wanted not in ("auto", *get_args(EngineName)):
        names = ", ".join(("auto", *get_args(EngineName)))
        raise ConfigError(f"--engine must be one of {names}, got {wanted!r}")
    if mode == "pynative":
        if wanted not in ("auto", "mindspore"):
            raise ConfigError(f"--mode pynative is MindSpore's; {wanted} has no such mode")
        return "mindspore"
    if wanted == "auto":
        return fastest()
    name: EngineName = next(each for each in get_args(EngineName) if each == wanted)
    if name == "native":
        _operators()
    elif not installed(name):
        raise ConfigError(f"--engine {name} isn't installed; pip install '.[{EXTRAS[name]}]'")
    return name


def fastest() -> EngineName:
    """What `auto` takes, by results/latency.json: MindSpore where there is an accelerator, else our
    own operators, else a light engine, else MindSpore with its own."""
    if ASCEND.exists():
        return "mindspore"
    preferred: tuple[EngineName, ...] = ("native", *LIGHT)
    return next((name for name in preferred if installed(name)), "mindspore")


def _operators() -> Path:
    """The library of our operators; ConfigError that says why it isn't there."""
    chosen = kernels.choice("CPU")
    if chosen.library is None:
        raise ConfigError(f"--engine native isn't there: {chosen.reason}")
    return chosen.library


EXTRAS = {"onnxruntime": "onnx", "openvino": "openvino"}


def make_engine(
    name: EngineName, config: NetworkConfig, arrays: Arrays, mode: Mode = "jit"
) -> Engine:
    """That engine with the network that `config` describes."""
    if name == "mindspore":
        from sr_app.inference.static import StaticNetwork

        return StaticNetwork(config, arrays, mode)
    if name == "native":
        from sr_app.inference.native import NativeEngine

        return NativeEngine(_operators(), config, arrays)
    return GraphEngine(name, config, arrays)


class GraphEngine:
    """The network as an ONNX graph in ONNX Runtime or OpenVINO; loads no MindSpore.

    Args:
        name: which of the two.
        config, arrays: the network.
    """

    def __init__(self, name: EngineName, config: NetworkConfig, arrays: Arrays) -> None:
        self.name: str = name
        self._config = config
        self.fill(arrays)

    def fill(self, arrays: Arrays) -> None:
        """Take other weights, in a new session."""
        from sr_app.inference.graph import graph

        content = graph(self._config, arrays, "network").SerializeToString()
        self._run = SESSIONS[self.name](content)

    def forward(self, low: Pixels) -> Pixels:
        """See `Engine`."""
        return self._run(low)


class FileEngine:
    """An exported file, which `run` computes."""

    def __init__(self, name: str, path: Path, run: Callable[[Pixels], Pixels]) -> None:
        self.name = name
        self._path = path
        self._run = run

    def fill(self, arrays: Arrays) -> None:
        """An exported file keeps its weights: ConfigError."""
        raise ConfigError(f"{self._path}: an exported network takes no other weights")

    def forward(self, low: Pixels) -> Pixels:
        """See `Engine`."""
        return self._run(low)


def onnxruntime_session(content: bytes) -> Callable[[Pixels], Pixels]:
    """An ONNX file's content in ONNX Runtime, in as many threads as SR_THREADS says."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads.count()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(low: Pixels) -> Pixels:
        result: Pixels = session.run(None, {name: low})[0]
        return result

    return run


def openvino_session(content: bytes) -> Callable[[Pixels], Pixels]:
    """The same in OpenVINO, in float32 (on some processors it would round to bfloat16)."""
    core = _openvino_core()
    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads.count(),
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = core.compile_model(core.read_model(content, b""), "CPU", settings)

    def run(low: Pixels) -> Pixels:
        return np.array(compiled([low])[0], np.float32)  # a copy: the next call overwrites it

    return run


@cache
def _openvino_core() -> Any:
    """One for all networks: each replaces the stack that signals are handled on, and when two go
    in another order than they came, the next signal (a Ctrl-C) is a segmentation fault."""
    import openvino

    return openvino.Core()


SESSIONS = {"onnxruntime": onnxruntime_session, "openvino": openvino_session}
