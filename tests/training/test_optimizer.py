"""Adam and the moving average, against their formulas."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from sr_app.training.ema import WeightAverage
from sr_app.training.optimizer import Adam


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_adam_is_the_papers_for_gradients_large_and_tiny(mode: int) -> None:
    """Twenty updates with gradients from 1e0 to 1e-8, where the place of epsilon shows; to 1e-6 of
    the way that the weights went, float32 against float64."""
    ms.set_context(mode=mode)
    random = np.random.default_rng(0)
    start = random.normal(size=(5, 3)).astype(np.float32)
    weight = Parameter(Tensor(start), name="weight")
    adam = Adam([weight])
    first, second, expected = np.zeros((5, 3)), np.zeros((5, 3)), start.astype(np.float64)
    for t in range(1, 21):
        gradient = (random.normal(size=(5, 3)) * 10.0 ** -(t % 9)).astype(np.float32)
        rate = 1e-2 / t
        adam((Tensor(gradient),), Tensor(rate, ms.float32))
        first = 0.9 * first + 0.1 * gradient.astype(np.float64)
        second = 0.999 * second + 0.001 * gradient.astype(np.float64) ** 2
        corrected = first / (1 - 0.9**t), second / (1 - 0.999**t)
        expected = expected - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    assert np.abs(expected - start).max() > 1e-2
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
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
