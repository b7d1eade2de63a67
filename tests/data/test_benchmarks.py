"""Whole pictures for evaluation: sr_app/data/benchmarks.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sr_app.data.benchmarks import available, held_out, load
from sr_app.data.folders import find
from sr_app.errors import DataError, PictureError
from sr_app.image.files import read_rgb

Save = Callable[..., None]


@pytest.fixture
def set5(tmp_path: Path, save: Save) -> Path:
    """A set in the benchmark layout, its HR not a multiple of the scale."""
    root = tmp_path / "data"
    save(root / "benchmarks/Set5/HR", "baby.png", "bird.png", size=(25, 31))
    save(root / "benchmarks/Set5/LR_bicubic/X3", "babyx3.png", "birdx3.png", size=(8, 10))
    return root


def test_pairs_have_the_published_low_and_high_cropped_to_it(set5: Path) -> None:
    loaded = load("Set5", 3, root=set5)
    assert (loaded.name, loaded.scale, loaded.protocol, len(loaded)) == ("Set5", 3, "benchmark", 2)
    folder = set5 / "benchmarks/Set5"
    for pair, name in zip(loaded, ("baby", "bird"), strict=True):
        assert pair.name == name
        assert (pair.low == read_rgb(folder / f"LR_bicubic/X3/{name}x3.png")).all()
        assert (pair.high == read_rgb(folder / f"HR/{name}.png")[:24, :30]).all()


def test_a_set_is_found_by_its_path_too(set5: Path, tmp_path: Path) -> None:
    by_path = load(str(set5 / "benchmarks/Set5"), 3, root=tmp_path / "none")
    assert by_path == load("Set5", 3, root=set5)


def test_pictures_are_decoded_only_when_asked_for(set5: Path) -> None:
    (set5 / "benchmarks/Set5/HR/notes.png").write_bytes(b"")
    (set5 / "benchmarks/Set5/LR_bicubic").rename(set5 / "away")
    loaded = load("Set5", 3, root=set5)
    assert loaded[0].low.shape == (8, 10, 3)
    with pytest.raises(PictureError, match=r"notes\.png"):
        loaded[2]


def test_div2k_is_its_validation_split_under_its_own_protocol(div2k: Path) -> None:
    loaded = load("DIV2K", 2, limit=1, root=div2k.parent)
    assert [pair.name for pair in loaded] == ["0801"]
    assert loaded.protocol == "div2k"
    assert len(load("DIV2K", 2, limit=10, root=div2k.parent)) == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_leaves_nothing_is_an_error(set5: Path, limit: int) -> None:
    with pytest.raises(DataError, match=f"limit {limit} leaves no picture"):
        load("Set5", 3, limit, set5)


def test_the_sets_that_are_there_are_listed(set5: Path, div2k: Path) -> None:
    assert available(set5) == ("Set5", "DIV2K")
    for file in (div2k / "DIV2K_valid_HR").iterdir():
        file.unlink()
    assert available(set5) == ("Set5",)


def test_the_embedded_set_gives_the_pictures_that_are_not_trained_on() -> None:
    assert [pair.name for pair in load("sample", 2)] == ["chelsea", "coffee"]


def test_the_real_sets_are_found_where_sr_data_says(with_sr_data: Path, tmp_path: Path) -> None:
    assert available(tmp_path) == ("Set5", "Set14", "B100")
    crops = load("DIV2K_crops", 4, limit=2, root=tmp_path)
    assert (crops.name, crops.protocol) == ("DIV2K_crops", "div2k")
    assert [pair.low.shape for pair in crops] == [(64, 64, 3), (64, 64, 3)]
    bridge = load("Set14", 3, root=tmp_path)[2]  # a gray picture of 512 x 512
    assert bridge.low.shape == (170, 170, 3) and bridge.high.shape == (510, 510, 3)


def test_what_is_held_out_is_the_validation_split_less_what_is_trained_on(
    tmp_path: Path, save: Save
) -> None:
    save(tmp_path / "A" / "A_train_HR", "0001.png", "0002.png")
    save(tmp_path / "A" / "A_valid_HR", "0003.png", "0004.png")
    save(tmp_path / "plain", "1.png", "2.png")

    def names(spec: str, limit: int = 10) -> list[str] | None:
        found = held_out(spec, find(spec, 2, root=tmp_path), 2, limit, tmp_path)
        return None if found is None else [pair.name for pair in found]

    assert names("A") == ["0003", "0004"]
    assert names("A", limit=1) == ["0003"]
    assert names("A+plain") == ["0003", "0004"]
    assert names("plain") is None


def test_each_picture_has_a_name_of_its_own_which_can_be_part_of_a_file_name(
    tmp_path: Path, save: Save
) -> None:
    save(tmp_path / "photos", "a.png", "a.bmp", "a.png.jpg", "b.png")
    expected = ["a.bmp", "photos_a.png", "photos_a.png.jpg", "b"]
    assert list(load("photos", 2, root=tmp_path).names) == expected
    for name in ("one", "two"):
        save(tmp_path / name / "HR", "01.png", f"{name}.png")
    joined = load("one+two", 2, root=tmp_path)
    assert [pair.name for pair in joined] == ["one", "one_HR_01.png", "two", "two_HR_01.png"]
    assert load("one+two", 2, 1, tmp_path).names == joined.names[:1]


def test_a_picture_that_is_given_twice_is_an_error(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "photos", "a.png", "b.png")
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    for spec in ("photos+photos", f"photos+{tmp_path}/photos", "photos+link"):
        with pytest.raises(DataError, match=r"same picture is given twice in .*photos/a\.png"):
            load(spec, 2, root=tmp_path)


def test_a_set_that_is_trained_on_twice_as_often_is_validated_on_once(div2k: Path) -> None:
    twice = find("DIV2K+DIV2K", 2, root=div2k.parent)
    validation = held_out("DIV2K+DIV2K", twice, 2, 10, div2k.parent)
    assert validation is not None and validation.names == ("0801", "0802")
