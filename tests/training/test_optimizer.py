"""Adam and the moving average, apart and in one pass, against their formulas."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from sr_app import kernels
from sr_app.training.ema import WeightAverage
from sr_app.training.optimizer import Adam
from sr_app.training.update import Update

MODES = [ms.PYNATIVE_MODE, ms.GRAPH_MODE]
SHAPES = [(5, 3), (1,), (70_000,), ()]
TRUE, FALSE = Tensor(True), Tensor(False)


def made(own: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Parameter], Update]:
    """Weights, and their update by our operator or by MindSpore's."""
    if own and kernels.choice("CPU").library is None:
        pytest.skip("our operators are not used here (SR_KERNELS=off, or no compiler)")
    random = np.random.default_rng(0)
    weights = [
        Parameter(Tensor(random.normal(size=shape).astype(np.float32)), name=f"weight{number}")
        for number, shape in enumerate(SHAPES)
    ]
    with monkeypatch.context() as patch:
        if not own:
            patch.setattr(kernels, "library", lambda: None)
        return weights, Update(Adam(weights), WeightAverage(weights, 0.5))


def gradients(t: int) -> list[np.ndarray]:
    """From 1e0 down to 1e-8, where the place of epsilon shows."""
    random = np.random.default_rng(t)
    return [(random.normal(size=s) * 10.0 ** -(t % 9)).astype(np.float32) for s in SHAPES]


def tensors(arrays: list[np.ndarray]) -> tuple[Tensor, ...]:
    """Mutable, or MindSpore compiles anew for each tuple's values."""
    return ms.mutable(tuple(Tensor(array) for array in arrays))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("own", [True, False])
def test_the_update_is_adam_s_and_the_average_s(
    mode: int, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty updates, to 20 roundings of weights of up to 4. Those that are not wanted change
    nothing, whatever the gradients are."""
    ms.set_context(mode=mode)
    weights, step = made(own, monkeypatch)
    start = [w.asnumpy().astype(np.float64) for w in weights]
    expected, average = [w.copy() for w in start], [w.copy() for w in start]
    first, second = [0 * w for w in start], [0 * w for w in start]
    for t in range(1, 21):
        rate, given = 1e-2 / t, gradients(t)
        bad = [np.full(shape, np.nan, np.float32) for shape in SHAPES]
        nan = Tensor(np.nan, ms.float32)
        step(tensors(bad), nan, nan, FALSE)
        factor = Tensor(0.5, ms.float32)
        step(tensors(given), factor, Tensor(rate, ms.float32), TRUE)
        decay = min(0.5, (1 + t) / (10 + t))
        for k, gradient in enumerate(given):
            g = 0.5 * gradient.astype(np.float64)
            first[k] = 0.9 * first[k] + 0.1 * g
            second[k] = 0.999 * second[k] + 0.001 * g**2
            corrected = first[k] / (1 - 0.9**t), second[k] / (1 - 0.999**t)
            expected[k] = expected[k] - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
            average[k] = decay * average[k] + (1 - decay) * expected[k]
    assert all(abs(now - before).max() > 1e-2 for now, before in zip(expected, start, strict=True))
    for k, weight in enumerate(weights):
        np.testing.assert_allclose(weight.asnumpy(), expected[k], rtol=0, atol=4e-6)
        np.testing.assert_allclose(
            step.average.averages[k].asnumpy(), average[k], rtol=0, atol=4e-6
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_the_average_follows_the_weights(mode: int, decay: float) -> None:
    ms.set_context(mode=mode)
    weight = Parameter(Tensor(np.zeros(2, np.float32)), name="weight")
    average = WeightAverage([weight], decay)
    expected = np.zeros(2)
    for t in range(1, 15):
        weight.set_data(Tensor(np.array([t, -t], np.float32)))
        average()
        d = min(decay, (1 + t) / (10 + t))
        expected = d * expected + (1 - d) * np.array([t, -t])
    np.testing.assert_allclose(average.averages[0].asnumpy(), expected, rtol=1e-6)
