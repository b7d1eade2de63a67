"""A tiny run, and the compile mode put back after each test."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import pytest

from sr_app.data.cache import PixelCache, open_cache
from sr_app.data.folders import find
from sr_app.image.metrics import Score
from sr_app.nets.description import EDSRConfig
from sr_app.training.config import BatchConfig, OptimizerConfig, RunConfig, ValidationConfig

TINY = RunConfig(
    steps=6,
    average=0.9,
    network=EDSRConfig(blocks=1, features=4),
    batch=BatchConfig(size=2, patch=8),
    optimizer=OptimizerConfig(learning_rate=1e-3, schedule="cosine", warm_up=2),
    validation=ValidationConfig(every=3),
)


@pytest.fixture(autouse=True)
def mode_put_back() -> Iterator[None]:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


@pytest.fixture
def cache(pictures: Path) -> PixelCache:
    """The three small pictures, decoded, at x2."""
    return open_cache(find(str(pictures), 2), 2)


@pytest.fixture
def rising() -> Callable[..., Score]:
    """A validation whose score rises by 1 dB each time."""
    taken = 0

    def validate(arrays: object) -> Score:
        nonlocal taken
        taken += 1
        return Score(20.0 + taken, 0.5)

    return validate


def tiny(**settings: object) -> RunConfig:
    """The tiny run with other settings."""
    return replace(TINY, **settings)
