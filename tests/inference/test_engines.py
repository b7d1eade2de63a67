"""Engines agree, whatever the picture's size, and are chosen as asked."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore.graph.api import ms_compile_cache
from numpy.typing import NDArray

from sr_app.errors import ConfigError
from sr_app.inference import engines
from sr_app.inference.engines import EngineName, chosen, make_engine
from sr_app.inference.model import Model, to_uint8
from sr_app.kernels import Choice
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise

WITHOUT_MINDSPORE = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(not engines.installed(name), reason=f"needs {what}"),
    )
    for name, what in (
        ("native", "our operators (SR_KERNELS=off, or no compiler)"),
        ("onnxruntime", "onnxruntime and onnx: pip install -e '.[onnx]'"),
        ("openvino", "openvino and onnx: pip install -e '.[openvino]'"),
    )
]


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(0, 255, (height, width, 3)).astype(np.float32)


@pytest.mark.parametrize("engine", WITHOUT_MINDSPORE)
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_an_engine_gives_mindspores_pixels(engine: EngineName, scale: int) -> None:
    """Within 1e-3 of 255, since sums are taken in another order; so uint8 within 1 level. The
    residual scale shows whether it was forgotten."""
    network = EDSR(EDSRConfig(scale=scale, blocks=2, features=8, residual_scale=0.5))
    initialise(network, seed=3)
    arrays = weights.gather(network)
    ours = Model(network.config, arrays, "ours", mode="pynative")
    theirs = Model(network.config, arrays, "theirs", engine)
    for size in ((16, 24), (1, 9), (31, 43)):
        low = picture(*size)
        one, other = ours.enhance(low), theirs.enhance(low)
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-3)
        assert np.abs(to_uint8(one).astype(int) - to_uint8(other)).max() <= 1


@pytest.mark.parametrize("engine", [*WITHOUT_MINDSPORE, "mindspore"])
def test_an_engine_uses_other_weights_at_once(
    engine: EngineName, network: Callable[..., EDSR]
) -> None:
    low = picture(8, 8).transpose(2, 0, 1)[None]
    one, other = network(seed=1), network(seed=2)
    made = make_engine(engine, one.config, weights.gather(one))
    first = made.forward(low)
    made.fill(weights.gather(other))
    expected = make_engine(engine, other.config, weights.gather(other)).forward(low)
    np.testing.assert_array_equal(made.forward(low), expected)
    assert np.abs(expected - first).max() > 1


@pytest.mark.skipif(not engines.installed("openvino"), reason="needs openvino and onnx")
def test_signals_are_handled_after_openvino_has_gone(checkpoint: Path) -> None:
    """It puts a stack for them in place, and takes it away."""
    code = (
        "import os, signal, sr_app\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('handled'))\n"
        f"one, other = (sr_app.load({str(checkpoint)!r}, engine='openvino') for _ in range(2))\n"
        "del one\n"
        "del other\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "handled", done.stderr


def test_compiled_and_pynative_give_the_same_uint8(network: Callable[..., EDSR]) -> None:
    """And floats within 1e-3 of 255; they are of the same operators."""
    made, low = network(), picture(21, 30)
    results = [
        Model(made.config, weights.gather(made), "m", mode=mode).enhance(low)
        for mode in ("jit", "pynative")
    ]
    np.testing.assert_allclose(*results, rtol=0, atol=1e-3)
    np.testing.assert_array_equal(*map(to_uint8, results))


def test_thirty_sizes_are_one_compilation(network: Callable[..., EDSR]) -> None:
    """Of each part: MindSpore's own list of what it has compiled grows at the first call alone."""
    made = network()
    model = Model(made.config, weights.gather(made), "m")
    before = len(ms_compile_cache)
    model.enhance(picture(8, 8))
    compiled = len(ms_compile_cache)
    assert before < compiled <= before + 2
    for k in range(30):
        model.enhance(picture(5 + k, 40 - k))
    assert len(ms_compile_cache) == compiled


@pytest.mark.slow
def test_memory_does_not_grow_with_sizes(network: Callable[..., EDSR]) -> None:
    """A static compile keeps 50 MB for each size. The pictures are below 100 kB."""
    import resource

    made = network()
    model = Model(made.config, weights.gather(made), "m")
    peaks = []
    for k in range(90):
        model.enhance(picture(5 + k, 99 - k))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    assert peaks[-1] - peaks[30] < 20  # MB


def test_a_training_before_changes_nothing(network: Callable[..., EDSR]) -> None:
    """It leaves MindSpore in GRAPH_MODE, where each size would be another compilation."""
    made = network()
    model = Model(made.config, weights.gather(made), "m")
    expected = model.enhance(picture(8, 8))
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        compiled = len(ms_compile_cache)
        model.enhance(picture(9, 9))
        np.testing.assert_array_equal(model.enhance(picture(8, 8)), expected)
        assert len(ms_compile_cache) == compiled
        assert ms.get_context("mode") == ms.GRAPH_MODE
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_the_compile_cache_is_off() -> None:
    """It returns results of other networks and sizes."""
    assert not ms.get_context("enable_compile_cache")


def test_auto_takes_the_fastest_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our operators; without them a light engine; without those MindSpore."""
    there = {"onnx", "onnxruntime"}
    library: Path | None = Path("ours.so")
    monkeypatch.setattr(engines, "find_spec", lambda name: name if name in there else None)
    monkeypatch.setattr(engines.kernels, "choice", lambda device: Choice(library, "no compiler"))
    assert chosen("auto", "jit") == "native"
    library = None
    assert chosen("auto", "jit") == "onnxruntime"
    assert chosen("auto", "pynative") == "mindspore"
    there.clear()
    assert chosen("auto", "jit") == "mindspore"
    with pytest.raises(ConfigError, match="native isn't there: no compiler"):
        chosen("native", "jit")
    with pytest.raises(
        ConfigError, match=r"openvino isn't installed; pip install '\.\[openvino\]'"
    ):
        chosen("openvino", "jit")


def test_engines_that_are_not_there_are_told() -> None:
    with pytest.raises(ConfigError, match="one of auto, native, mindspore, onnxruntime, openvino"):
        chosen("tensorrt", "jit")
    with pytest.raises(ConfigError, match="pynative is MindSpore's"):
        chosen("onnxruntime", "pynative")


def test_the_native_engine_gives_mindspores_values_to_the_bit(network: Callable[..., EDSR]) -> None:
    """They are the same operators, which is what lets `auto` take it for MindSpore's."""
    if not engines.installed("native"):
        pytest.skip("needs our operators (SR_KERNELS=off, or no compiler)")
    made, low = network(), picture(37, 52)
    arrays = weights.gather(made)
    one, other = (Model(made.config, arrays, "m", name) for name in ("native", "mindspore"))
    np.testing.assert_array_equal(one.enhance(low), other.enhance(low))


def test_want_of_memory_is_told_as_such(network: Callable[..., EDSR]) -> None:
    """So that upscaling goes on with smaller tiles."""
    if not engines.installed("native"):
        pytest.skip("needs our operators (SR_KERNELS=off, or no compiler)")
    made = network()
    operators = make_engine("native", made.config, weights.gather(made))._operators  # type: ignore[attr-defined]
    operators._library = {"trunk": lambda *_: errno.ENOMEM}
    with pytest.raises(MemoryError, match=r"trunk of \(1, 2\)"):
        operators("trunk", [np.zeros((1, 2))], (1,))
    operators._library = {"trunk": lambda *_: 1}
    with pytest.raises(ValueError, match=r"trunk refuses \(1, 2\)"):
        operators("trunk", [np.zeros((1, 2))], (1,))


@pytest.mark.parametrize("engine", WITHOUT_MINDSPORE)
def test_such_an_engine_loads_no_mindspore(checkpoint: Path, engine: EngineName) -> None:
    code = (
        "import sys, numpy as np, sr_app\n"
        f"model = sr_app.load({str(checkpoint)!r}, engine={engine!r})\n"
        "model.enhance(np.zeros((8, 8, 3), np.float32))\n"
        "print('mindspore' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
