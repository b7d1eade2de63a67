"""Pairs that fit, and the check of a whole set: sr_app/data/folders.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sr_app.data.folders import check, find
from sr_app.errors import DataError, PictureError

Save = Callable[..., None]


def test_a_pair_that_does_not_fit_is_an_error_with_both_names_and_sizes(
    div2k: Path, save: Save
) -> None:
    """Real-ESRGAN 409: "GT is not 4x LQ" said neither which file nor which size."""
    save(div2k / "DIV2K_train_LR_bicubic/X2", "0002x2.png", size=(13, 18))
    with pytest.raises(DataError, match=r"36 x 24 .*must be 18 x 12, but .*18 x 13") as caught:
        find(str(div2k), 2)
    assert "DIV2K_train_HR/0002.png" in str(caught.value)
    assert "X2/0002x2.png" in str(caught.value)


def test_low_sizes_are_rounded_down(tmp_path: Path, save: Save) -> None:
    """As the published files of 512 x 512 pictures at x3, which are 170 x 170."""
    save(tmp_path / "Odd/HR", "a.png", size=(26, 31))
    save(tmp_path / "Odd/LR_bicubic/X3", "ax3.png", size=(8, 10))
    assert len(find("Odd", 3, "train", tmp_path)) == 1


def test_a_low_picture_whose_header_is_broken_is_an_error_that_names_it(div2k: Path) -> None:
    broken = div2k / "DIV2K_train_LR_bicubic/X2/0001x2.png"
    broken.write_bytes(b"no picture")
    with pytest.raises(PictureError, match=r"0001x2.png"):
        find(str(div2k), 2)


def test_a_good_set_is_checked_and_told(div2k: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = check("DIV2K", 2, div2k.parent, lambda done, total: calls.append((done, total)))
    assert report.ok
    assert calls == [(1, 3), (2, 3), (3, 3), (1, 2), (2, 2)]
    text = str(report)
    assert "training: 3 HR pictures" in text and "3 pairs in" in text
    assert "validation: 2 HR pictures" in text
    assert "smallest 36 x 24, largest 36 x 24" in text
    assert text.endswith("DIV2K at scale 2 can be trained on")


def test_every_bad_file_is_told_not_only_the_first(div2k: Path, save: Save) -> None:
    highs, lows = div2k / "DIV2K_train_HR", div2k / "DIV2K_train_LR_bicubic/X2"
    whole = (highs / "0001.png").read_bytes()
    (highs / "0001.png").write_bytes(whole[: len(whole) // 2])  # its header is still right
    (highs / "0002.png").write_bytes(b"")
    save(lows, "0010x2.png", size=(12, 17))
    report = check("DIV2K", 2, div2k.parent)
    assert not report.ok
    problems = report.splits[0].problems
    assert len(problems) == 3
    for problem, name in zip(problems, ("0001.png", "0002.png", "0010x2.png"), strict=True):
        assert name in problem
    assert "can't be trained on: 3 problem(s)" in str(report)
    assert not report.splits[1].problems


def test_what_is_missing_is_told_not_raised(div2k: Path) -> None:
    shutil.rmtree(div2k / "DIV2K_valid_HR")
    (div2k / "DIV2K_train_LR_bicubic/X2/0002x2.png").unlink()
    report = check("DIV2K", 2, div2k.parent)
    assert not report.ok
    assert "PROBLEM in training: 1 of 3 HR pictures have no LR picture" in str(report)
    assert "PROBLEM in validation: DIV2K in" in str(report)


def test_a_set_without_a_split_is_checked_once(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "photos", "a.png", size=(30, 20))
    save(tmp_path / "photos", "b.png", size=(40, 50))
    (split,) = check("photos", 2, tmp_path).splits
    text = "\n".join(split.lines())
    assert "training and validation: 2 HR pictures" in text
    assert "LR: made from HR for 2 pictures" in text
    assert "smallest 20 x 30, largest 50 x 40" in text


def test_a_picture_smaller_than_the_scale_is_told(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "photos", "tiny.png", size=(1, 20))
    report = check("photos", 2, tmp_path)
    assert "tiny.png is 20 x 1 pixels: too small for scale 2" in str(report)


def test_an_unknown_set_can_not_be_checked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no set or folder 'nothing'"):
        check("nothing", 2, tmp_path)


def test_the_embedded_set_can_be_trained_on() -> None:
    assert check("sample", 2).ok


def test_broken_links_and_pipes_are_told_like_bad_files(tmp_path: Path, save: Save) -> None:
    photos = tmp_path / "photos"
    save(photos, "a.png")
    (photos / "b.png").symlink_to("nothing.png")
    os.mkfifo(photos / "c.png")
    problems = check("photos", 2, tmp_path).splits[0].problems
    assert len(problems) == 2
    assert "b.png can't be opened: No such file" in problems[0]
    assert "c.png is a pipe" in problems[1]
    (photos / "b.png").unlink()
    with pytest.raises(DataError, match=r"c\.png is a broken link or no file"):
        find("photos", 2, "train", tmp_path)
