"""Scores of methods whose result is known."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from sr_app.data.benchmarks import Pair
from sr_app.data.degradation import low_from_high
from sr_app.image.metrics import Score
from sr_app.inference import evaluate


@pytest.fixture
def pair() -> Pair:
    y, x = np.mgrid[:40, :48]
    high = np.uint8(127.5 + 90 * np.stack([np.sin((x + k * y) / 4) for k in range(3)], axis=2))
    return Pair("waves", low_from_high(high, 2), high)


def test_the_truth_scores_infinity(pair: Pair) -> None:
    scored = evaluate.score_pair(lambda low: pair.high, pair, "benchmark", 2)
    assert scored.score == Score(inf, 1.0)


def test_a_network_is_clamped_and_rounded_before_it_is_scored(pair: Pair) -> None:
    """A result off by 0.4 rounds to the truth."""
    method = evaluate.network(lambda low: pair.high.astype(np.float32) + 0.4)
    assert evaluate.score_pair(method, pair, "rgb", 2).score.psnr == inf


def test_an_error_of_one_level_scores_what_the_formula_says(pair: Pair) -> None:
    """10 log10(255^2 / 1) = 48.13 dB on RGB."""
    method: Callable[..., np.ndarray] = lambda low: pair.high + 1  # noqa: E731
    assert evaluate.score_pair(method, pair, "rgb", 2).score.psnr == pytest.approx(
        48.1308, abs=1e-4
    )


def test_bicubic_is_between_nearest_and_the_truth(pair: Pair) -> None:
    def nearest(low: np.ndarray) -> np.ndarray:
        return low.repeat(2, axis=0).repeat(2, axis=1)

    by_bicubic = evaluate.score_pair(evaluate.bicubic(2), pair, "benchmark", 2).score
    by_nearest = evaluate.score_pair(nearest, pair, "benchmark", 2).score
    assert by_nearest.psnr + 3 < by_bicubic.psnr < inf


def test_the_mean_is_of_scores_not_of_errors() -> None:
    assert evaluate.mean([Score(30.0, 0.8), Score(40.0, 0.9)]) == Score(35.0, pytest.approx(0.85))
