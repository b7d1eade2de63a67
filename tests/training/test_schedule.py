"""The learning rate at the updates where it matters."""

import pytest

from sr_app.training.config import OptimizerConfig
from sr_app.training.schedule import learning_rate


def test_halving_is_the_papers() -> None:
    paper = OptimizerConfig(learning_rate=1e-4, schedule="halving", halve_every=200_000)
    rates = [learning_rate(t, 300_000, paper) for t in (0, 199_999, 200_000, 299_999)]
    assert rates == [1e-4, 1e-4, 5e-5, 5e-5]


def test_cosine_falls_from_the_peak_to_the_final_rate() -> None:
    cosine = OptimizerConfig(learning_rate=1e-3, schedule="cosine", final_rate=1e-5)
    assert learning_rate(0, 1000, cosine) == 1e-3
    assert learning_rate(500, 1000, cosine) == pytest.approx((1e-3 + 1e-5) / 2)
    assert learning_rate(1000, 1000, cosine) == pytest.approx(1e-5)
    assert learning_rate(5000, 1000, cosine) == pytest.approx(1e-5)  # a run made shorter


@pytest.mark.parametrize("schedule", ["halving", "cosine"])
def test_warm_up_rises_in_a_line_to_the_peak(schedule: str) -> None:
    config = OptimizerConfig(learning_rate=1e-3, schedule=schedule, warm_up=4)
    rates = [learning_rate(t, 100, config) for t in range(5)]
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3])
