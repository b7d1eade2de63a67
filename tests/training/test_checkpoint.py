"""Saves under faults: what is there before stays until the next is whole, and is found by itself.

A state of small arrays without a network, so that a save under each fault takes milliseconds.
"""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sr_app.data.cache import PixelCache
from sr_app.errors import CheckpointError, ConfigError
from sr_app.nets import weights
from sr_app.training import checkpoint
from sr_app.training.config import GuardConfig
from sr_app.training.progress import Progress, Taken
from tests.faults import faulty
from tests.training.conftest import tiny

ERRNOS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)


def arrays(step: int) -> weights.Arrays:
    """As a state after so many steps may have them."""
    return {"w": np.full((5, 3), step, np.float32), "adam.power1": np.array(0.9**step, np.float32)}


def save(folder: Path, step: int, cache: PixelCache, keep: int = 2) -> None:
    progress = Progress(step, recent=(Taken(float("nan"), 1.0, False), Taken(2.5, 1.0, True)))
    pictures = cache.fingerprints
    checkpoint.save_state(folder, arrays(step), progress, tiny(keep=keep), cache.key, pictures)


def restored(folder: Path, cache: PixelCache, say: Callable[[str], None] = print) -> Progress:
    """The progress that a run would go on from; its arrays are looked at."""
    progress, found = checkpoint.restore(folder, arrays(0), tiny(steps=100), cache, say)
    for name, array in arrays(progress.step).items():
        np.testing.assert_array_equal(found[name], array)
    return progress


def test_a_state_comes_back_as_it_was(tmp_path: Path, cache: PixelCache) -> None:
    save(tmp_path, 7, cache)
    progress = restored(tmp_path, cache)
    assert (progress.step, progress.recent[1]) == (7, Taken(2.5, 1.0, True))
    assert np.isnan(progress.recent[0].loss)


def test_the_last_states_are_kept(tmp_path: Path, cache: PixelCache) -> None:
    for step in (1, 2, 3, 5, 8):
        save(tmp_path, step, cache, keep=3)
    assert [path.name for path in checkpoint.states(tmp_path)] == [
        *("state-00000008.safetensors", "state-00000005.safetensors", "state-00000003.safetensors")
    ]


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
def test_whatever_write_fails_the_state_before_is_found(
    number: int, tmp_path: Path, cache: PixelCache
) -> None:
    """Each write of a save in turn, until a save has none left to fail."""
    for failing in range(1, 100):
        folder = tmp_path / str(failing)
        folder.mkdir()
        for step in (1, 2):
            save(folder, step, cache)
        with faulty(folder, failing, number) as writes:
            try:
                save(folder, 3, cache)
            except CheckpointError as error:
                assert os.strerror(number) in str(error) and str(folder) in str(error)
        assert not list(folder.glob(".*")), f"{writes.failed}: something half written is left"
        assert restored(folder, cache).step in (2, 3), writes.failed
        save(folder, 3, cache)
        assert restored(folder, cache).step == 3
        if writes.failed is None:
            assert failing > 5  # write, fsync, replace, fsync of the folder, removal
            return


def test_a_bit_that_flips_anywhere_is_noticed(tmp_path: Path, cache: PixelCache) -> None:
    """safetensors itself loads a flipped number without a word."""
    save(tmp_path, 1, cache)
    (path,) = checkpoint.states(tmp_path)
    whole = path.read_bytes()
    chosen = random.Random(0)
    for place in chosen.sample(range(8 * len(whole)), 400):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            restored(tmp_path, cache)
    path.write_bytes(whole)
    assert restored(tmp_path, cache).step == 1


@pytest.mark.parametrize("damage", ["flipped", "cut short", "empty", "text"])
def test_the_state_before_is_taken_when_the_newest_is_damaged(
    damage: str, tmp_path: Path, cache: PixelCache
) -> None:
    save(tmp_path, 1, cache)
    save(tmp_path, 2, cache)
    path = checkpoint.states(tmp_path)[0]
    whole = path.read_bytes()
    flipped = whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:]
    kinds = {"flipped": flipped, "cut short": whole[:-9], "empty": b"", "text": b"hello"}
    path.write_bytes(kinds[damage])
    said: list[str] = []
    assert restored(tmp_path, cache, said.append).step == 1
    assert path.name in said[0] and "going back to state-00000001.safetensors" in said[0]
    save(tmp_path, 3, cache)
    assert checkpoint.state_file(tmp_path, 1).exists(), "the damaged one is not counted as kept"
    assert restored(tmp_path, cache).step == 3


def test_damaged_states_alone_end_the_start(tmp_path: Path, cache: PixelCache) -> None:
    """And do not begin anew over them."""
    for step in (1, 2):
        save(tmp_path, step, cache)
    for path in checkpoint.states(tmp_path):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"00000002.*00000001.*No other.*--warm_start"):
        restored(tmp_path, cache)


def test_pictures_that_changed_are_named_and_taken_only_by_choice(
    tmp_path: Path, cache: PixelCache
) -> None:
    save(tmp_path, 1, cache)
    highs = (cache.highs[0], cache.highs[1] + 1, cache.highs[2])
    now = replace(cache, key="another", names=("0.png", "1.png", "3.png"), highs=highs)
    told = r"gone: 2\.png; new: 3\.png; changed: 1\.png"
    with pytest.raises(ConfigError, match=rf"other pictures.*{told}.*--guard.pictures skip"):
        checkpoint.restore(tmp_path, arrays(0), tiny(), now, print)
    said: list[str] = []
    skipping = tiny(guard=GuardConfig(pictures="skip"))
    progress, _ = checkpoint.restore(tmp_path, arrays(0), skipping, now, said.append)
    assert progress.step == 1
    assert "going on with what is there now" in said[0]
