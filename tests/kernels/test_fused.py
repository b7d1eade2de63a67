"""The fused trunk and upsampler, against the same network of MindSpore's own cells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from numpy.typing import NDArray

from sr_app import kernels
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import Computing, initialise
from tests.kernels.cells import Pull, SecondDerivative

Array = NDArray[np.float32]
Mode = Literal["PyNative", "jit", "GRAPH_MODE"]

CONFIGS = [
    EDSRConfig(scale=2, blocks=2, features=16),
    EDSRConfig(scale=3, blocks=1, features=13, residual_scale=0.3, activation="relu"),
    EDSRConfig(scale=4, blocks=3, features=5, residual_scale=0.1, slope=0.2),
]

TOLERANCE = 1e-5
"""Of the largest value: the chain's sums are taken in another order, in float32, and Winograd's
transforms round twice as much as a plain sum."""


@pytest.fixture(autouse=True)
def pynative_afterwards(library: Path) -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def network(config: EDSRConfig, computing: Computing = "fast", training: bool = True) -> EDSR:
    """Seeded; biases of size 1, so that many units are off, and many are on."""
    made = EDSR(config, computing)
    initialise(made, seed=1)
    for name, parameter in made.parameters_dict().items():
        if name.endswith("bias"):
            parameter.set_data(normal(*parameter.shape))
    made.set_train(training)
    return made


def mindspores(config: EDSRConfig, monkeypatch: pytest.MonkeyPatch) -> EDSR:
    """The network made of MindSpore's own cells."""
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "library", lambda: None)
        made = network(config)
    assert made.fused is None and made.trunk.fused is None and type(made.head) is nn.Conv2d
    return made


def normal(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(shape).standard_normal(shape).astype(np.float32))


def pictures(config: EDSRConfig, n: int = 2, h: int = 7, w: int = 10) -> tuple[Tensor, Tensor]:
    return 100 * normal(n, 3, h, w), normal(n, 3, config.scale * h, config.scale * w)


def pulled(made: EDSR, x: Tensor, dy: Tensor, mode: Mode = "PyNative") -> list[Array]:
    pull = Pull(made)
    pull.set_train(made.training)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "GRAPH_MODE" else ms.PYNATIVE_MODE)
    return [result.asnumpy().copy() for result in (ms.jit(pull) if mode == "jit" else pull)(x, dy)]


def require_close(found: list[Array], wanted: list[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert abs(other).max() > 0
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * abs(other).max())


@pytest.mark.parametrize("mode", ["PyNative", "jit", "GRAPH_MODE"])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"x{config.scale}")
def test_values_and_gradients_are_those_of_mindspores_cells(
    config: EDSRConfig, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, dy = pictures(config)
    wanted = pulled(mindspores(config, monkeypatch), x, dy)
    for training in (True, False):
        require_close(pulled(network(config, "fast", training), x, dy, mode), wanted)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"x{config.scale}")
def test_what_low_memory_computes_again_is_the_same_to_the_last_bit(config: EDSRConfig) -> None:
    x, dy = pictures(config)
    low = pulled(network(config, "low"), x, dy)
    for one, other in zip(low, pulled(network(config, "fast"), x, dy), strict=True):
        assert np.array_equal(one, other)


def test_a_plain_network_uses_no_fused_operator_and_gives_the_same() -> None:
    config = CONFIGS[0]
    plain = network(config, "plain")
    assert plain.fused is None and plain.trunk.fused is None
    x, dy = pictures(config)
    require_close(pulled(plain, x, dy), pulled(network(config), x, dy))


def test_low_memory_without_our_operators_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernels, "library", lambda: None)
    EDSR(CONFIGS[0], "low")
    assert "memory is low, but has no effect" in caplog.text


def test_results_are_the_same_to_the_last_bit_from_call_to_call() -> None:
    made = network(EDSRConfig(scale=2, blocks=2, features=16))
    x, dy = pictures(made.config, 4, 24, 24)
    first = pulled(made, x, dy)
    for _ in range(5):
        for again, result in zip(pulled(made, x, dy), first, strict=True):
            assert np.array_equal(again, result)


def test_gradients_are_those_of_finite_differences() -> None:
    """Steps so small that few units switch; the network is piecewise linear in each tensor, and the
    leak is not seen forward, so the activation's slope is that of the forward: 0."""
    made = network(EDSRConfig(scale=2, blocks=1, features=8, slope=0.0))
    x, dy = pictures(made.config)
    _, _, *gradients = pulled(made, x, dy)

    def product() -> float:
        return float((made(x).asnumpy().astype(np.float64) * dy.asnumpy()).sum())

    for parameter, gradient in zip(made.trainable_params(), gradients, strict=True):
        values, step = parameter.asnumpy().copy(), 1e-3 * normal(*parameter.shape).asnumpy()
        parameter.copy_(Tensor(values + step))
        above = product()
        parameter.copy_(Tensor(values - step))
        difference = (above - product()) / 2
        parameter.copy_(Tensor(values))
        assert (gradient * step).sum() == pytest.approx(difference, rel=0.02, abs=0.1)


def test_height_and_width_may_change_under_one_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = CONFIGS[2]
    made, wanted = network(config, training=False), mindspores(config, monkeypatch)
    made.set_inputs(Tensor(shape=[1, 3, None, None], dtype=ms.float32))
    compiled = ms.jit(made)
    for h, w in [(4, 6), (9, 2), (1, 1), (33, 21), (4, 6)]:
        low = 100 * normal(1, 3, h, w)
        require_close([compiled(low).asnumpy()], [wanted(low).asnumpy()])


@pytest.mark.parametrize("jit", [False, True])
def test_a_change_of_the_weights_is_seen_by_the_next_call(
    jit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIGS[0]
    made, wanted = network(config, training=False), mindspores(config, monkeypatch)
    call = ms.jit(made) if jit else made
    x, _ = pictures(config)
    call(x)
    for each in (made, wanted):
        for parameter in each.trainable_params():
            parameter.copy_(parameter * 1.1 + 0.01)
    require_close([call(x).asnumpy()], [wanted(x).asnumpy()])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("jit", [False, True])
def test_the_second_derivative_is_refused(
    jit: bool, training: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MindSpore writes its analysis of a failed compilation here
    cell = SecondDerivative(network(CONFIGS[0]))
    cell.set_train(training)
    with pytest.raises(NotImplementedError, match="no second derivative; with SR_KERNELS=off"):
        (ms.jit(cell) if jit else cell)(pictures(CONFIGS[0])[0]).asnumpy()
