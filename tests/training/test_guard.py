"""Bad numbers, bad pictures, a disk that fills, time that is over: what a run does about them."""

import errno
import json
import os
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sr_app.data.cache import PixelCache, open_set
from sr_app.data.patches import batch, crops
from sr_app.errors import DataError, PictureError, SrAppError, TrainingError
from sr_app.image.metrics import Score
from sr_app.training import checkpoint, guard, journal, loop
from sr_app.training.config import (
    BatchConfig,
    GuardConfig,
    OptimizerConfig,
    RunConfig,
    ValidationConfig,
)
from sr_app.training.progress import USUAL_AFTER, Progress, Taken
from tests.faults import faulty
from tests.training.conftest import tiny

RARELY = ValidationConfig(every=1000)


def quick(**settings: object) -> RunConfig:
    """A tiny run that has nothing to compile."""
    return tiny(mode="pynative", **settings)


def train(config: RunConfig, folder: Path, cache: PixelCache) -> Progress:
    return loop.train(config, folder, cache, lambda arrays: Score(20.0, 0.5), lambda said: None)


def records(folder: Path, key: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if key in line]


@pytest.mark.parametrize("skipping", [False, True])
def test_spikes_are_told_with_their_files_and_left_out_by_choice(
    skipping: bool, tmp_path: Path, cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so low a bound that usual losses are over it; what is expected is taken from the losses
    themselves."""
    losses: list[float] = []
    take = loop._take

    def noted(*given: Any) -> Taken:
        taken = take(*given)
        losses.append(taken.loss)
        return taken

    monkeypatch.setattr(loop, "_take", noted)
    settings = GuardConfig(spike=1.002, skip_spikes=skipping, most_skips=50)
    config = tiny(steps=40, batch=BatchConfig(size=1, patch=8), validation=RARELY, guard=settings)
    progress = train(config, tmp_path, cache)
    over = [
        step
        for step in range(USUAL_AFTER + 1, 41)
        if losses[step - 1] > 1.002 * float(np.median(losses[: step - 1]))
    ]
    assert over, losses
    troubles = records(tmp_path, "trouble")
    assert [each["step"] for each in troubles] == over
    for each in troubles:
        chosen = crops(cache, seed=config.seed, step=each["step"] - 1, batch_size=1, patch=8)
        assert each["files"] == sorted({cache.names[crop.picture] for crop in chosen})
        assert each["trouble"].startswith("spike: loss")
        assert each["trouble"].endswith("left out") == skipping
    assert progress.skipped == (len(over) if skipping else 0)


def test_a_run_that_skips_too_often_keeps_the_batch_and_names_the_last_state(
    tmp_path: Path, cache: PixelCache
) -> None:
    config = quick(
        steps=50,
        optimizer=OptimizerConfig(learning_rate=1e38),
        validation=ValidationConfig(every=1),
        guard=GuardConfig(most_skips=3),
    )
    state = "state-00000003.safetensors"
    with pytest.raises(TrainingError, match=rf"rate 1e\+38.*bad_batch.*last good state.*{state}"):
        train(config, tmp_path, cache)
    assert [each["step"] for each in records(tmp_path, "trouble")] == [2, 3, 4]
    place = tmp_path / "bad_batch"
    about = json.loads((place / "batch.json").read_text())
    assert (about["step"], len(about["patches"])) == (4, 2)
    assert about["patches"][0]["file"] in cache.names
    low, high = batch(cache, seed=config.seed, step=3, batch_size=2, patch=8)
    for number in range(2):
        for name, pixels in (("low", low), ("high", high)):
            with Image.open(place / f"{number:03}_{name}.png") as image:
                np.testing.assert_array_equal(np.asarray(image).transpose(2, 0, 1), pixels[number])


def test_a_batch_that_cannot_be_written_is_no_reason_to_hide_the_diagnosis(
    tmp_path: Path, cache: PixelCache
) -> None:
    (tmp_path / "bad_batch").write_text("a file")
    progress = Progress(step=3)
    told = guard.keep_batch(tmp_path, cache, quick(), progress, 1e-3)
    assert "could not be written" in told and "bad_batch" in told


def test_time_that_is_over_saves_and_stops(tmp_path: Path, cache: PixelCache) -> None:
    config = quick(steps=1000, validation=RARELY, max_hours=1e-9)
    assert train(config, tmp_path, cache).step == 1
    assert checkpoint.states(tmp_path) == [checkpoint.state_file(tmp_path, 1)]
    assert train(replace(config, max_hours=None, steps=5), tmp_path, cache).step == 5


def test_a_disk_that_gets_full_is_told_before_a_save_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [10_000_000, 3_000_000, 2_000_000, 10_000_000, 1_000_000]
    Usage = namedtuple("Usage", "free")
    said: list[str] = []
    disk = guard.LowDisk(tmp_path, 2_000_000, said.append)
    monkeypatch.setattr(guard.shutil, "disk_usage", lambda folder: Usage(free.pop(0)))
    for _ in range(5):
        disk.look()
    assert [line.partition(" MB")[0] for line in said] == ["low disk: 3", "low disk: 1"]
    assert "a save takes 2 MB" in said[0]


def test_validation_on_a_picture_that_rots_stops_or_is_left_out_by_choice(
    tmp_path: Path, cache: PixelCache
) -> None:
    def rotten(arrays: object) -> Score:
        raise PictureError("photo.png is damaged")

    config = quick(guard=GuardConfig(pictures="skip"))
    progress = loop.train(config, tmp_path, cache, rotten, lambda said: None)
    assert (progress.step, progress.best) == (6, None)
    troubles = records(tmp_path, "trouble")
    assert [each["step"] for each in troubles] == [3, 6]
    assert troubles[0]["trouble"] == "no validation: photo.png is damaged"


def test_training_pictures_that_are_gone_after_the_start_are_not_missed(
    tmp_path: Path, pictures: Path, cache: PixelCache
) -> None:
    """Their pixels are in the mapped cache."""

    def removing(arrays: object) -> Score:
        for path in pictures.glob("*.png"):
            path.write_bytes(b"rotten")
        return Score(20.0, 0.5)

    assert loop.train(quick(), tmp_path, cache, removing, lambda said: None).step == 6


def test_a_training_picture_that_cannot_be_read_stops_or_is_left_out_by_choice(
    pictures: Path,
) -> None:
    whole = (pictures / "1.png").read_bytes()
    (pictures / "1.png").write_bytes(whole[:500])
    said: list[str] = []
    with pytest.raises(PictureError, match=r"1\.png"):
        open_set(str(pictures), 2, False, said.append)
    assert not said
    found, pixels = open_set(str(pictures), 2, True, said.append)
    assert (len(found), pixels.names) == (2, ("0.png", "2.png"))
    assert "leaving out 1 pictures" in said[0] and "1.png" in said[0]
    for path in pictures.glob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="none of the 3 pictures"):
        open_set(str(pictures), 2, True, said.append)


@pytest.mark.slow
def test_whatever_write_of_a_run_fails_it_ends_with_an_error_and_can_go_on(
    tmp_path: Path, cache: PixelCache
) -> None:
    """Each write in turn of a run of 2 steps, both validated and saved, until none is left to fail.
    What comes out in the end is the run that nothing happened to."""
    number = errno.ENOSPC
    warm_up = OptimizerConfig(learning_rate=1e-3, warm_up=1)
    config = quick(steps=2, validation=ValidationConfig(every=1), optimizer=warm_up)
    train(config, tmp_path / "whole", cache)
    for failing in range(1, 200):
        folder = tmp_path / str(failing)
        with faulty(folder, failing, number) as writes:
            try:
                train(config, folder, cache)
            except SrAppError as error:
                assert os.strerror(number) in str(error), writes.failed
        assert train(config, folder, cache).step == 2
        for name in ("state-00000002", "latest", "best"):
            ours, wanted = (
                checkpoint.weights.read_arrays(each / f"{name}.safetensors")[0]
                for each in (folder, tmp_path / "whole")
            )
            for key, array in wanted.items():
                np.testing.assert_array_equal(ours[key], array, f"{name} after {writes.failed}")
        if writes.failed is None:
            assert failing > 20
            return
    pytest.fail("a run has no end")


def test_a_journal_on_a_full_disk_ends_the_run_and_does_not_hang(
    tmp_path: Path, cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tensorboardX's own writer has a thread that dies of it, and a queue that is then full."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(*given: object) -> None:
        raise full

    monkeypatch.setattr(journal._Board, "write", write)
    with pytest.raises(TrainingError, match="the journal can't be written: No space left"):
        train(quick(), tmp_path, cache)
