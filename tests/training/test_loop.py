"""A run: what it leaves, how it goes on, how it ends."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from sr_app.data.cache import PixelCache
from sr_app.errors import CheckpointError, ConfigError, PictureError, TrainingError
from sr_app.image.metrics import Score
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights
from sr_app.training import checkpoint, loop
from sr_app.training.config import GuardConfig, OptimizerConfig, RunConfig, ValidationConfig
from sr_app.training.progress import Progress
from tests.training.conftest import tiny

Validate = Callable[..., Score]


def train(config: RunConfig, folder: Path, cache: PixelCache, validate: Validate) -> Progress:
    """A run whose words nobody hears."""
    return loop.train(config, folder, cache, validate, lambda message: None)


def records(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_networks_its_settings_and_its_journal(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    run = tmp_path / "run"
    progress = train(tiny(), run, cache, rising)
    assert (progress.step, progress.skipped, progress.best) == (6, 0, 22.0)
    best = weights.read(run / "best.safetensors")
    assert best.config == tiny().network
    assert best.record["step"] == 6
    assert best.record["validation"] == {"psnr": 22.0, "ssim": 0.5}
    latest = weights.read(run / "latest.safetensors")
    for name, array in best.arrays.items():
        np.testing.assert_array_equal(latest.arrays[name], array)
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["network"]["blocks"] == 1
    scores = [(r["step"], r["psnr"]) for r in records(run) if "psnr" in r]
    assert scores == [(3, 21.0), (6, 22.0)]
    (training,) = [r for r in records(run) if "loss" in r]
    assert training["step"] == 6
    assert 0 <= training["data_wait"] < 1
    assert sorted(p.name for p in run.iterdir() if not p.name.startswith(".")) == [
        *("best.safetensors", "config.yaml", "latest.safetensors", "metrics.jsonl"),
        *("state-00000003.safetensors", "state-00000006.safetensors", "tensorboard"),
    ]
    assert list((run / "tensorboard").glob("events.out.tfevents.*"))
    assert not list(run.glob("*.part*"))


def test_best_is_kept_when_later_scores_are_lower(tmp_path: Path, cache: PixelCache) -> None:
    scores = iter([Score(30.0, 0.9), Score(20.0, 0.8)])
    progress = train(tiny(), tmp_path, cache, lambda arrays: next(scores))
    assert progress.best == 30.0
    assert weights.read(tmp_path / "best.safetensors").record["step"] == 3
    assert weights.read(tmp_path / "latest.safetensors").record["step"] == 6


def test_the_averaged_weights_are_scored_and_shipped(tmp_path: Path, cache: PixelCache) -> None:
    seen: list[weights.Arrays] = []

    def validate(arrays: weights.Arrays) -> Score:
        seen.append(arrays)
        return Score(20.0, 0.5)

    train(tiny(), tmp_path, cache, validate)
    state, _ = weights.read_arrays(checkpoint.state_file(tmp_path, 6))
    for name, array in seen[-1].items():
        np.testing.assert_array_equal(array, state[f"average.{name}"])
        assert name.endswith("activation") or (array != state[name]).any()


def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    """A cosine over 6 steps is asked for both times; the first is stopped after its third."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(tiny(), whole, cache, rising)

    def stop_then_score(arrays: weights.Arrays) -> Score:
        os.kill(os.getpid(), signal.SIGINT)
        return Score(20.0, 0.5)

    assert train(tiny(), cut, cache, stop_then_score).step == 3
    assert train(tiny(), cut, cache, rising).step == 6
    for name in ("state-00000006", "latest"):
        ours, _ = weights.read_arrays(whole / f"{name}.safetensors")
        theirs, _ = weights.read_arrays(cut / f"{name}.safetensors")
        assert ours.keys() == theirs.keys()
        for key, array in ours.items():
            np.testing.assert_array_equal(array, theirs[key])
    assert [r["step"] for r in records(cut) if "psnr" in r] == [3, 6]


def test_a_finished_run_is_left_as_it_is(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    """BasicSR issue 464: resuming a finished run is no failure."""
    train(tiny(), tmp_path, cache, rising)
    before = checkpoint.state_file(tmp_path, 6).read_bytes()
    assert train(tiny(), tmp_path, cache, rising).step == 6
    assert checkpoint.state_file(tmp_path, 6).read_bytes() == before


def test_a_finished_run_can_be_made_longer(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    train(tiny(), tmp_path, cache, rising)
    assert train(tiny(steps=8), tmp_path, cache, rising).step == 8


def test_a_run_does_not_go_on_as_another(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    train(tiny(), tmp_path, cache, rising)
    with pytest.raises(ConfigError, match="seed was 1, now 2"):
        train(tiny(seed=2), tmp_path, cache, rising)


def test_a_damaged_state_is_told(tmp_path: Path, cache: PixelCache, rising: Validate) -> None:
    checkpoint.state_file(tmp_path, 6).write_bytes(b"half")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        train(tiny(), tmp_path, cache, rising)


def test_another_file_in_the_states_place_is_told(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    weights.write(checkpoint.state_file(tmp_path, 6), Weights(tiny().network, {}))
    with pytest.raises(CheckpointError, match="not the state of a run"):
        train(tiny(), tmp_path, cache, rising)


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="can't be written"):
        train(tiny(), tmp_path / "file" / "run", cache, rising)


def test_gradients_that_stay_bad_end_the_run_with_a_diagnosis(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    """SRFBN issue 2: not "skip this batch" for ever. A rate of 1e38 makes the second step bad."""
    config = tiny(
        steps=50,
        optimizer=OptimizerConfig(learning_rate=1e38),
        validation=ValidationConfig(every=50),
        guard=GuardConfig(most_skips=3),
    )
    with pytest.raises(TrainingError, match=r"3 steps in a row.*cut from.*[012].*learning_rate"):
        train(config, tmp_path, cache, rising)


def test_weights_that_are_useless_are_not_saved(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    """1e39 is infinite in float32."""
    config = tiny(optimizer=OptimizerConfig(learning_rate=1e39))
    with pytest.raises(TrainingError, match="step 3: the weights are not finite"):
        train(config, tmp_path, cache, rising)
    assert not checkpoint.states(tmp_path)


def test_what_was_trained_is_kept_when_validation_fails(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    def broken(arrays: weights.Arrays) -> Score:
        raise PictureError("photo.png is damaged")

    with pytest.raises(PictureError):
        train(tiny(), tmp_path, cache, broken)
    assert train(tiny(), tmp_path, cache, rising).step == 6
    assert [r["step"] for r in records(tmp_path) if "psnr" in r] == [6]


def test_a_second_process_in_the_same_folder_is_refused(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    with (
        checkpoint.locked(tmp_path),
        pytest.raises(TrainingError, match=r"another process trains there.*--run"),
    ):
        train(tiny(), tmp_path, cache, rising)
    (tmp_path / ".state.0123.part.safetensors").touch()
    assert train(tiny(), tmp_path, cache, rising).step == 6
    assert not list(tmp_path.glob(".*.part.*")), "what a killed process left is cleared away"


def test_a_run_does_not_go_on_with_other_pictures(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    train(tiny(), tmp_path, cache, rising)
    with pytest.raises(ConfigError, match="trained on other pictures"):
        train(tiny(steps=8), tmp_path, replace(cache, key="another"), rising)


def test_a_best_score_by_another_validation_does_not_count(
    tmp_path: Path, cache: PixelCache
) -> None:
    train(tiny(), tmp_path, cache, lambda arrays: Score(40.0, 0.9))
    said: list[str] = []
    longer = tiny(steps=8, validation=ValidationConfig(every=8, protocol="rgb"))
    progress = loop.train(longer, tmp_path, cache, lambda arrays: Score(30.0, 0.8), said.append)
    assert progress.best == 30.0
    assert "validation is not what it was" in said[0]


def test_a_run_asked_for_fewer_steps_than_it_has_is_left_as_it_is(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    train(tiny(), tmp_path, cache, rising)
    before = (tmp_path / "config.yaml").read_text()
    said: list[str] = []
    assert loop.train(tiny(steps=4), tmp_path, cache, rising, said.append).step == 6
    assert said == [f"{tmp_path} has 6 steps already"]
    assert (tmp_path / "config.yaml").read_text() == before


def test_a_state_with_damaged_numbers_is_told(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    train(tiny(), tmp_path, cache, rising)
    checkpoint.state_file(tmp_path, 3).unlink()
    path = checkpoint.state_file(tmp_path, 6)
    arrays, about = weights.read_arrays(path)
    for damage in (
        {"progress": {"step": "2"}},
        {"progress": {"step": 2.5}},
        {"progress": {"step": -5}},
        {"progress": {"step": 1, "skipped": 9}},
        {"progress": {"best": []}},
        {"progress": {"recent": [[1.0, 2.0]]}},
        {"progress": {"scale": {"value": 0.5}}},
        {"progress": None},
        {"config": None},
        {"config": [1]},
    ):
        weights.write_arrays(path, arrays, about | damage)
        with pytest.raises(CheckpointError, match="not the state of a run"):
            train(tiny(), tmp_path, cache, rising)


def test_x3_starts_from_x2_and_only_its_upsampling_anew(tmp_path: Path, cache: PixelCache) -> None:
    source = EDSR(EDSRConfig(blocks=1, features=4))
    initialise(source, seed=9)
    path = tmp_path / "x2.safetensors"
    weights.write(path, Weights(source.config, weights.gather(source)))
    said: list[str] = []
    config = tiny(network=replace(source.config, scale=3), warm_start=str(path))
    fresh = checkpoint.changing(loop.build(config))
    progress, begun = checkpoint.restore(tmp_path, fresh, config, cache, said.append)
    assert progress == Progress()
    assert begun.keys() == fresh.keys()
    for name, array in weights.gather(source).items():
        for ours in (name, f"average.{name}"):
            wanted = fresh[ours] if name.startswith("upsample.") else array
            np.testing.assert_array_equal(begun[ours], wanted)
        np.testing.assert_array_equal(begun[f"adam.first.{name}"], 0)
    assert said == [
        f"warm start from {path}; beginning anew: upsample.0.conv.weight, upsample.0.conv.bias"
    ]


def test_a_warm_start_from_another_network_is_refused(tmp_path: Path, cache: PixelCache) -> None:
    source = EDSR(EDSRConfig(blocks=2, features=4))
    path = tmp_path / "x2.safetensors"
    weights.write(path, Weights(source.config, weights.gather(source)))
    config = tiny(warm_start=str(path))
    with pytest.raises(CheckpointError, match=r"trunk\.blocks\.1\.conv1\.bias.*do not fit"):
        fresh = checkpoint.changing(loop.build(config))
        checkpoint.restore(tmp_path, fresh, config, cache, print)


def test_a_resumed_run_does_not_need_its_warm_start_any_more(
    tmp_path: Path, cache: PixelCache, rising: Validate
) -> None:
    source = EDSR(tiny().network)
    initialise(source, seed=9)
    path = tmp_path / "x2.safetensors"
    weights.write(path, Weights(source.config, weights.gather(source)))
    config = tiny(warm_start=str(path))
    train(config, tmp_path / "run", cache, rising)
    path.unlink()
    assert train(replace(config, steps=8), tmp_path / "run", cache, rising).step == 8
