"""Decoded pixels on disk: sr_app/data/cache.py."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import platformdirs
import pytest

from sr_app.data import cache as module
from sr_app.data.cache import PixelCache, open_cache
from sr_app.data.degradation import Pixels, read_pair
from sr_app.data.folders import PictureSet, find
from sr_app.errors import DataError, PictureError
from sr_app.image.files import read_rgb
from sr_app.places import cache_folder

Save = Callable[..., None]


@pytest.fixture
def photos(tmp_path: Path, save: Save) -> PictureSet:
    """Pictures of several sizes, none a multiple of 3."""
    for i, size in enumerate([(24, 37), (10, 11), (50, 20)]):
        save(tmp_path / "photos", f"{i}.png", size=size)
    return find(str(tmp_path / "photos"), 3)


def files(suffix: str) -> list[Path]:
    return sorted(cache_folder().glob(f"*.{suffix}"))


def assert_holds(cache: PixelCache, pictures: PictureSet) -> None:
    """The cache's pixels are those of the files."""
    assert len(cache) == len(pictures)
    for i, (high, low) in enumerate(pictures.pairs):
        expected_low, expected_high = read_pair(high, low, cache.scale)
        np.testing.assert_array_equal(cache.low(i), expected_low)
        np.testing.assert_array_equal(cache.high(i), expected_high)


def test_low_is_made_and_high_cropped_where_there_are_no_low_files(photos: PictureSet) -> None:
    cache = open_cache(photos, 3)
    assert_holds(cache, photos)
    assert [low.shape for low in cache.lows] == [(8, 12, 3), (3, 3, 3), (16, 6, 3)]
    assert cache.names == ("0.png", "1.png", "2.png")
    assert (cache.name, cache.scale) == ("photos", 3)


def test_low_files_are_used_where_they_are(div2k: Path) -> None:
    pictures = find(str(div2k), 2)
    cache = open_cache(pictures, 2)
    assert_holds(cache, pictures)
    low_file = div2k / "DIV2K_train_LR_bicubic/X2/0010x2.png"
    np.testing.assert_array_equal(cache.low(2), read_rgb(low_file))


def test_pixels_can_not_be_written_to(photos: PictureSet) -> None:
    with pytest.raises(ValueError, match=r"read-only"):
        open_cache(photos, 3).low(0)[0, 0, 0] = 1


def test_files_are_decoded_once(photos: PictureSet) -> None:
    calls: list[tuple[int, int]] = []
    open_cache(photos, 3, lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert_holds(open_cache(photos, 3, lambda *_: pytest.fail("decoded again")), photos)


def test_a_set_that_is_moved_and_touched_keeps_its_cache(
    photos: PictureSet, tmp_path: Path
) -> None:
    open_cache(photos, 3)
    shutil.copytree(tmp_path / "photos", tmp_path / "moved", copy_function=shutil.copyfile)
    moved = find(str(tmp_path / "moved"), 3)
    assert_holds(open_cache(moved, 3, lambda *_: pytest.fail("decoded again")), moved)
    assert len(files("pixels")) == 1


def test_a_changed_picture_a_scale_and_a_new_picture_get_caches_of_their_own(
    photos: PictureSet, tmp_path: Path, save: Save
) -> None:
    open_cache(photos, 3)
    assert_holds(open_cache(photos, 2), photos)
    shutil.copy(tmp_path / "photos/2.png", tmp_path / "photos/1.png")
    assert_holds(open_cache(photos, 3), photos)
    save(tmp_path / "photos", "4.png")
    more = find(str(tmp_path / "photos"), 3)
    assert_holds(open_cache(more, 3), more)
    assert len(files("pixels")) == 4


def truncate(pixels: Path, index: Path) -> None:
    os.truncate(pixels, pixels.stat().st_size - 5)


def flip_bits(pixels: Path, index: Path) -> None:
    content = bytearray(pixels.read_bytes())
    content[len(content) // 2] ^= 0xFF
    pixels.write_bytes(content)


def remove_pixels(pixels: Path, index: Path) -> None:
    pixels.unlink()


def cut_index(pixels: Path, index: Path) -> None:
    index.write_text(index.read_text()[:20])


def forget_checksum(pixels: Path, index: Path) -> None:
    index.write_text('{"low_sizes": []}')


@pytest.mark.parametrize("damage", [truncate, flip_bits, remove_pixels, cut_index, forget_checksum])
def test_a_damaged_cache_is_told_and_made_anew(
    photos: PictureSet, damage: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    open_cache(photos, 3)
    damage(*files("pixels"), *files("json"))
    with caplog.at_level(logging.WARNING):
        assert_holds(open_cache(photos, 3), photos)
    assert "is damaged" in caplog.text and str(files("pixels")[0]) in caplog.text
    caplog.clear()
    assert_holds(open_cache(photos, 3, lambda *_: pytest.fail("decoded again")), photos)
    assert not caplog.text


@pytest.mark.parametrize(
    "damage",
    [b"", b"\xff" * 32, b"\0" * 32, b"../" * 10 + b"ab", b"0" * 32 + b"\n"],
    ids=["empty", "binary", "zeros", "path", "newline"],
)
def test_a_remembered_key_that_is_damaged_is_found_anew(photos: PictureSet, damage: bytes) -> None:
    open_cache(photos, 3)
    files("key")[0].write_bytes(damage)
    assert_holds(open_cache(photos, 3, lambda *_: pytest.fail("decoded again")), photos)


def test_too_small_a_disk_is_an_error_with_the_folder_and_the_bytes(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_free_bytes", lambda folder: 1000)
    # 3 channels, LR of 8 x 12, 3 x 3 and 16 x 6 pixels, HR of 9 times as many
    needed = 3 * (8 * 12 + 3 * 3 + 16 * 6) * 10
    with pytest.raises(DataError, match=f"needs {needed} bytes in .*, where 1000 are") as caught:
        open_cache(photos, 3)
    assert str(cache_folder()) in str(caught.value) and "SR_CACHE" in str(caught.value)
    assert not files("pixels") and not files("json")


def test_a_disk_that_fills_up_meanwhile_is_the_same_error_and_leaves_nothing(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_up(pictures: PictureSet, scale: int) -> Iterator[tuple[Pixels, Pixels]]:
        yield read_pair(pictures.highs[0], None, scale)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_decoded", fill_up)
    with pytest.raises(DataError, match=r"needs \d+ bytes in"):
        open_cache(photos, 3)
    assert {file.suffix for file in cache_folder().iterdir()} == {".key", ".lock"}


def test_a_picture_that_can_not_be_decoded_is_an_error_and_leaves_nothing(
    photos: PictureSet,
) -> None:
    whole = photos.highs[1].read_bytes()
    photos.highs[1].write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PictureError, match=r"1.png"):
        open_cache(photos, 3)
    assert {file.suffix for file in cache_folder().iterdir()} == {".key", ".lock"}


def change_during(
    function: str, file: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    """Have a file changed just before the module's function is called for the first time."""
    original = getattr(module, function)

    def changed(*arguments: object) -> object:
        monkeypatch.setattr(module, function, original)
        change(file)
        return original(*arguments)

    monkeypatch.setattr(module, function, changed)


@pytest.mark.parametrize(
    ("function", "left"), [("_content_key", set()), ("_decoded", {".key", ".lock"})]
)
def test_a_picture_that_changes_while_it_is_read_is_an_error_and_leaves_no_pixels(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch, function: str, left: set[str]
) -> None:
    """Else its pixels would be stored under the key of what it was."""
    other = photos.highs[0].read_bytes()
    change_during(function, photos.highs[1], monkeypatch, lambda file: file.write_bytes(other))
    with pytest.raises(DataError, match=r"1\.png changed while the set photos was read"):
        open_cache(photos, 3)
    assert {file.suffix for file in cache_folder().iterdir()} == left
    assert_holds(open_cache(photos, 3), photos)


@pytest.mark.parametrize("function", ["_stamps", "_content_key", "_decoded"])
def test_a_picture_that_vanishes_is_not_told_as_a_problem_of_the_cache(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    change_during(function, photos.highs[1], monkeypatch, Path.unlink)
    with pytest.raises(PictureError, match=r"1\.png can't be .*: No such file") as caught:
        open_cache(photos, 3)
    assert "SR_CACHE" not in str(caught.value)


def test_the_key_tells_other_pixels_and_other_scales(photos: PictureSet, tmp_path: Path) -> None:
    first = open_cache(photos, 3).key
    assert [first] == [file.stem for file in files("pixels")]
    assert open_cache(photos, 2).key != first
    shutil.copytree(tmp_path / "photos", tmp_path / "moved")
    assert open_cache(find(str(tmp_path / "moved"), 3), 3).key == first
    shutil.copy(photos.highs[2], photos.highs[1])
    assert open_cache(photos, 3).key != first


def test_what_a_killed_process_left_is_cleared_away(photos: PictureSet) -> None:
    open_cache(photos, 3)
    (pixels,) = files("pixels")
    left = pixels.with_name(f".{pixels.stem}.0123.part.pixels")
    left.touch()
    pixels.unlink()
    open_cache(photos, 3)
    assert not left.exists()


def test_a_cache_folder_that_can_not_be_made_is_an_error_that_says_how_to_choose_another(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SR_CACHE", str(photos.highs[0] / "cache"))  # below a file
    with pytest.raises(DataError, match=r"can't be made in .*Not a directory.*set SR_CACHE"):
        open_cache(photos, 3)


def test_processes_that_start_together_get_the_same_cache_made_once(photos: PictureSet) -> None:
    program = (
        "import logging, sys; from pathlib import Path\n"
        "from sr_app.data import cache, folders\n"
        "made = []\n"
        "pictures = folders.find(sys.argv[1], 3)\n"
        "opened = cache.open_cache(pictures, 3, lambda *call: made.append(call))\n"
        "print(len(made), sum(int(high.sum()) for high in opened.highs))"
    )
    command = [sys.executable, "-c", program, str(photos.highs[0].parent)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [run.communicate(timeout=60)[0].split() for run in runs]
    assert sorted(int(made) for made, _ in answers) == [0, 0, 3]
    expected = sum(int(read_pair(high, None, 3)[1].sum()) for high in photos.highs)
    assert {int(total) for _, total in answers} == {expected}


def test_what_another_process_made_during_the_wait_is_not_made_again(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = module._locked

    @contextlib.contextmanager
    def wait_while_another_builds(path: Path) -> Iterator[None]:
        monkeypatch.setattr(module, "_locked", locked)
        open_cache(photos, 3)
        with locked(path):
            yield

    monkeypatch.setattr(module, "_locked", wait_while_another_builds)
    assert_holds(open_cache(photos, 3, lambda *_: pytest.fail("decoded again")), photos)


def test_the_wait_for_another_process_has_an_end(
    photos: PictureSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_cache(photos, 3)
    files("json")[0].unlink()
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    with files("lock")[0].open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataError, match=r"another process has held .*lock"):
            open_cache(photos, 3)
    assert_holds(open_cache(photos, 3), photos)


def test_the_cache_lies_in_the_systems_cache_folder_unless_sr_cache_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SR_CACHE")
    assert cache_folder() == platformdirs.user_cache_path("sr_app")
