"""A run's settings: what is refused, and what may change when a run is continued."""

from dataclasses import asdict, replace

import pytest

from sr_app.errors import ConfigError
from sr_app.nets.description import EDSRConfig
from sr_app.training.config import (
    BatchConfig,
    OptimizerConfig,
    RunConfig,
    ValidationConfig,
    require_same_run,
)


@pytest.mark.parametrize(
    ("part", "settings", "key"),
    [
        (RunConfig, {"steps": 0}, "steps"),
        (RunConfig, {"seed": -1}, "seed"),
        (RunConfig, {"average": 1.0}, "average"),
        (RunConfig, {"save_minutes": 0.0}, "save_minutes"),
        (RunConfig, {"save_minutes": float("nan")}, "save_minutes"),
        (RunConfig, {"steps": 5, "optimizer": OptimizerConfig(warm_up=5)}, "optimizer.warm_up"),
        (BatchConfig, {"size": 0}, "batch.size"),
        (BatchConfig, {"patch": 3}, "batch.patch"),
        (OptimizerConfig, {"learning_rate": 0.0}, "optimizer.learning_rate"),
        (OptimizerConfig, {"learning_rate": float("nan")}, "optimizer.learning_rate"),
        (OptimizerConfig, {"halve_every": 0}, "optimizer.halve_every"),
        (OptimizerConfig, {"warm_up": -1}, "optimizer.warm_up"),
        (OptimizerConfig, {"clip_norm": 0.0}, "optimizer.clip_norm"),
        (OptimizerConfig, {"final_rate": 1.0}, "optimizer.final_rate"),
        (ValidationConfig, {"every": 0}, "validation.every"),
        (ValidationConfig, {"pictures": 0}, "validation.pictures"),
        (ValidationConfig, {"protocol": "y"}, "validation.protocol"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_key(
    part: type, settings: dict[str, object], key: str
) -> None:
    with pytest.raises(ConfigError, match=key):
        part(**settings)


@pytest.mark.parametrize(
    ("part", "settings", "key"),
    [
        (RunConfig, {"data": None}, "data must be str"),
        (RunConfig, {"steps": 3.0}, "steps must be int"),
        (RunConfig, {"steps": True}, "steps must be int"),
        (RunConfig, {"mode": None}, "mode must be"),
        (RunConfig, {"loss": "l3"}, "loss must be"),
        (RunConfig, {"network": None}, "network must be EDSRConfig"),
        (EDSRConfig, {"scale": 2.0}, "network.scale must be"),
        (EDSRConfig, {"activation": None}, "network.activation must be"),
        (OptimizerConfig, {"learning_rate": float("inf")}, "optimizer.learning_rate must be float"),
    ],
)
def test_a_setting_of_another_type_is_refused_by_key(
    part: type, settings: dict[str, object], key: str
) -> None:
    with pytest.raises(ConfigError, match=key):
        part(**settings)


def test_a_continued_run_may_change_what_is_not_in_the_numbers_of_a_step() -> None:
    before = RunConfig()
    now = replace(
        before, steps=9, mode="pynative", save_minutes=1, validation=ValidationConfig(every=2)
    )
    require_same_run(asdict(before), now, "run")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": "Flickr2K"}, "data was 'sample', now 'Flickr2K'"),
        ({"network": EDSRConfig(scale=3)}, "network.scale was 2, now 3"),
        ({"optimizer": OptimizerConfig(clip_norm=None)}, "optimizer.clip_norm was 10.0, now None"),
        ({"batch": BatchConfig(size=4)}, "batch.size was 16, now 4"),
        ({"seed": 2}, "seed was 1, now 2"),
    ],
)
def test_a_continued_run_may_not_become_another(change: dict[str, object], told: str) -> None:
    before = RunConfig()
    with pytest.raises(ConfigError, match=rf"{told}.*--run another folder"):
        require_same_run(asdict(before), replace(before, **change), "run")
