"""Words and folders to files: sr_app/data/layouts.py, through find()."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sr_app.data.folders import PictureSet, find
from sr_app.data.layouts import has_split, natural_key, set_names
from sr_app.errors import DataError

Save = Callable[..., None]


def names(pictures: PictureSet) -> list[str]:
    return [file.name for file in pictures.highs]


def low_names(pictures: PictureSet) -> list[str | None]:
    return [None if low is None else low.name for _, low in pictures.pairs]


def test_div2k_is_found_by_name_by_path_and_by_the_path_of_its_parent(div2k: Path) -> None:
    root = div2k.parent
    for spec in ("DIV2K", str(div2k), f"{div2k}/", str(root)):
        train = find(spec, 2, "train", root)
        assert names(train) == ["0001.png", "0002.png", "0010.png"]
        assert low_names(train) == ["0001x2.png", "0002x2.png", "0010x2.png"]
        valid = find(spec, 2, "valid", root)
        assert names(valid) == ["0801.png", "0802.png"]
        assert low_names(valid) == ["0801x2.png", "0802x2.png"]
        assert train.name == "DIV2K"


def test_div2k_unzipped_straight_into_the_data_folder_is_found(div2k: Path) -> None:
    root = div2k.parent
    for folder in div2k.iterdir():
        folder.rename(root / folder.name)
    div2k.rmdir()
    assert names(find("DIV2K", 2, "valid", root)) == ["0801.png", "0802.png"]
    assert "DIV2K" in set_names(root)


def test_folders_that_unzip_made_twice_are_looked_through(div2k: Path) -> None:
    for name in ("DIV2K_train_HR", "DIV2K_train_LR_bicubic"):
        (div2k / name).rename(div2k / "aside")
        outer = div2k / (f"{name}_X2" if "LR" in name else name)
        outer.mkdir()
        (div2k / "aside").rename(outer / name)
    train = find(str(div2k), 2)
    assert low_names(train) == ["0001x2.png", "0002x2.png", "0010x2.png"]


def test_validation_pictures_in_the_train_folder_are_validated_on_not_trained_on(
    div2k: Path,
) -> None:
    """EDSR-PyTorch asks for 0001-0900 in DIV2K_train_HR (its issues 340, 364)."""
    for kind in ("HR", "LR_bicubic/X2"):
        for file in (div2k / f"DIV2K_valid_{kind}").iterdir():
            shutil.copy(file, div2k / f"DIV2K_train_{kind}")
    both = find(str(div2k), 2, "train"), find(str(div2k), 2, "valid")
    assert names(both[0]) == ["0001.png", "0002.png", "0010.png"]
    shutil.rmtree(div2k / "DIV2K_valid_HR")
    assert find(str(div2k), 2, "train") == both[0]
    valid = find(str(div2k), 2, "valid")
    assert low_names(valid) == ["0801x2.png", "0802x2.png"]


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_missing_split_is_an_error_that_names_the_folder_expected(
    div2k: Path, split: str
) -> None:
    shutil.rmtree(div2k / f"DIV2K_{split}_HR")
    with pytest.raises(DataError, match=f"expected DIV2K_{split}_HR.*found DIV2K_") as caught:
        find(str(div2k), 2, "train" if split == "train" else "valid")
    assert str(div2k) in str(caught.value)
    assert not has_split("DIV2K", "train" if split == "train" else "valid", div2k.parent)


def test_an_empty_validation_folder_is_an_error_that_says_what_was_found(div2k: Path) -> None:
    for file in (div2k / "DIV2K_valid_HR").iterdir():
        file.rename(file.with_suffix(".txt"))
    with pytest.raises(DataError, match=r"no pictures in .*DIV2K_valid_HR.*found 0801.txt"):
        find(str(div2k), 2, "valid")


def test_low_pictures_are_optional(div2k: Path) -> None:
    shutil.rmtree(div2k / "DIV2K_train_LR_bicubic")
    assert find(str(div2k), 2, "train").lows is None
    assert find(str(div2k), 2, "valid").lows is not None


def test_a_missing_low_picture_is_an_error_that_names_both_files(div2k: Path) -> None:
    (div2k / "DIV2K_train_LR_bicubic/X2/0002x2.png").unlink()
    with pytest.raises(DataError, match=r"1 of 3 HR pictures") as caught:
        find(str(div2k), 2)
    assert str(div2k / "DIV2K_train_HR/0002.png") in str(caught.value)
    assert str(div2k / "DIV2K_train_LR_bicubic/X2/0002x2.png") in str(caught.value)


def test_a_missing_scale_is_an_error_that_says_which_are_there(div2k: Path) -> None:
    with pytest.raises(DataError, match=r"no folder X3, only X2"):
        find(str(div2k), 3)


def test_the_other_layouts_give_all_pictures_for_both_splits(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "Flickr2K/Flickr2K_HR", "000001.png")
    save(tmp_path / "Flickr2K/Flickr2K_LR_bicubic/X2", "000001x2.png", size=(12, 18))
    save(tmp_path / "benchmarks/Set5/HR", "baby.png")
    save(tmp_path / "benchmarks/Set5/LR_bicubic/X2", "babyx2.png", size=(12, 18))
    save(tmp_path / "train/photos", "b10.jpg", "b9.PNG", "c.webp")
    (tmp_path / "train/photos/notes.txt").touch()
    (tmp_path / "train/photos/._b9.png").touch()  # what macOS leaves on other systems
    expected = {"Flickr2K": ["000001.png"], "Set5": ["baby.png"]}
    expected["photos"] = ["b9.PNG", "b10.jpg", "c.webp"]
    for name, files in expected.items():
        for split in ("train", "valid"):
            found = find(name, 2, "train" if split == "train" else "valid", tmp_path)
            assert (found.name, names(found)) == (name, files)
            assert (found.lows is None) == (name == "photos")
    assert set_names(tmp_path) == ("Flickr2K", "Set5", "photos", "sample")


def test_the_parent_of_several_sets_is_an_error_that_lists_them(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "Set5/HR", "baby.png")
    save(tmp_path / "Set14/HR", "zebra.png")
    with pytest.raises(
        DataError, match=r"several sets: Set14, Set5\. Say which, such as"
    ) as caught:
        find(str(tmp_path), 2)
    suggestion = str(caught.value).split("such as ")[1].split(",")[0]
    assert names(find(suggestion, 2)) == ["zebra.png"]


def test_a_parent_of_one_set_may_hold_plain_folders_too(div2k: Path, save: Save) -> None:
    save(div2k.parent / "holidays", "beach.jpg")
    assert names(find(str(div2k.parent), 2, "valid")) == ["0801.png", "0802.png"]


def test_low_pictures_alone_are_never_taken_for_high_ones(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "DIV2K/DIV2K_train_LR_bicubic_X2", "0001x2.png")
    with pytest.raises(DataError, match=r"no pictures in .*found DIV2K_train_LR_bicubic_X2"):
        find(str(tmp_path / "DIV2K"), 2)


def test_sets_are_joined_with_plus_and_keep_their_low_pictures(div2k: Path, save: Save) -> None:
    root = div2k.parent
    save(root / "photos", "a.png")
    joined = find(f"DIV2K+photos+{root / 'photos'}", 2, "train", root)
    assert joined.name == "DIV2K+photos+photos"
    assert names(joined) == ["0001.png", "0002.png", "0010.png", "a.png", "a.png"]
    assert low_names(joined) == ["0001x2.png", "0002x2.png", "0010x2.png", None, None]


def test_a_folder_whose_name_has_a_plus_is_taken_literally(tmp_path: Path, save: Save) -> None:
    save(tmp_path / "cats+dogs", "a.png")
    assert names(find(str(tmp_path / "cats+dogs"), 2)) == ["a.png"]
    assert names(find("cats+dogs", 2, "train", tmp_path)) == ["a.png"]


def test_an_unknown_name_is_an_error_that_lists_the_known_and_the_nearest(
    div2k: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SR_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"'div2k_'. Did you mean DIV2K\?") as caught:
        find("div2k_", 2, "train", div2k.parent)
    message = str(caught.value)
    assert "Known here: DIV2K, sample" in message
    assert str(div2k.parent) in message and str(tmp_path / "elsewhere") in message
    for spec in ("", "DIV2K+", "DIV2K+sampel"):
        with pytest.raises(DataError, match=r"there is no set or folder"):
            find(spec, 2, "train", div2k.parent)


def test_a_folder_without_pictures_is_an_error_that_says_what_was_expected_and_found(
    tmp_path: Path,
) -> None:
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong/DIV2K_train_HR.zip").touch()
    with pytest.raises(DataError, match=r"expected pictures.*found DIV2K_train_HR.zip") as caught:
        find("wrong", 2, "train", tmp_path)
    assert str(tmp_path / "wrong") in str(caught.value)


def test_a_file_is_an_error_that_asks_for_its_folder(tmp_path: Path, save: Save) -> None:
    save(tmp_path, "a.png")
    with pytest.raises(DataError, match=r"is a file: give the folder"):
        find(str(tmp_path / "a.png"), 2)


def test_the_embedded_set_needs_no_files_of_ours_and_its_splits_are_distinct() -> None:
    train, valid = find("sample", 2, "train"), find("sample", 2, "valid")
    assert len(train) == 4 and len(valid) == 2
    assert not set(train.highs) & set(valid.highs)
    assert all(file.is_file() for file in train.highs + valid.highs)
    assert train.lows is None and valid.lows is None


def test_natural_order_counts() -> None:
    files = ["img10.png", "img2.png", "img1.png", "a.png"]
    assert sorted(files, key=natural_key) == ["a.png", "img1.png", "img2.png", "img10.png"]


def test_crops_of_div2k_are_found_where_sr_data_says(with_sr_data: Path, tmp_path: Path) -> None:
    valid = find("DIV2K_crops", 2, "valid", tmp_path)
    assert names(valid)[::99] == ["0801.png", "0900.png"]
    assert valid.lows is None
    with pytest.raises(DataError, match=r"no training pictures"):
        find("DIV2K_crops", 2, "train", tmp_path)


def test_set5_comes_with_its_published_low_pictures(with_sr_data: Path, tmp_path: Path) -> None:
    set5 = find("Set5", 3, "valid", tmp_path)
    assert low_names(set5)[:2] == ["babyx3.png", "birdx3.png"] and len(set5) == 5


@pytest.mark.parametrize("folder", ["DIV2K_train_HR", "DIV2K_train_LR_bicubic/X2"])
def test_two_files_that_could_be_the_same_picture_of_a_pair_are_an_error_that_names_both(
    div2k: Path, save: Save, folder: str
) -> None:
    (png,) = (div2k / folder).glob("0002*")
    save(div2k / folder, f"{png.stem}.jpg")
    with pytest.raises(DataError, match=rf"{png.stem}\.jpg and {png.name} differ only in"):
        find(str(div2k), 2)


def test_a_name_longer_than_the_system_allows_is_an_unknown_set(
    div2k: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "a" * 300
    monkeypatch.setenv("SR_DATA", long)
    for spec in (long, f"/{long}", f"{long}/b", f"DIV2K+{long}"):
        with pytest.raises(DataError, match=r"there is no set or folder '.*Known here: DIV2K"):
            find(spec, 2, "train", div2k.parent)


def test_many_sets_can_be_joined(div2k: Path) -> None:
    """Their names together are longer than that of a file may be."""
    assert len(find("+".join(["DIV2K"] * 60), 2, "train", div2k.parent)) == 180


def test_a_folder_whose_name_leaves_no_room_for_that_of_a_low_folder_has_none(
    tmp_path: Path, save: Save
) -> None:
    name = "a" * 250 + "_HR"
    save(tmp_path / name, "a.png")
    assert find(str(tmp_path), 2).lows is None


@pytest.mark.parametrize("folder", ["DIV2K_train_HR", "DIV2K_train_LR_bicubic/X2"])
def test_a_broken_link_to_a_picture_is_an_error_that_names_it(div2k: Path, folder: str) -> None:
    (file,) = (div2k / folder).glob("0002*")
    file.rename(div2k / "away.png")
    file.symlink_to("nothing.png")
    with pytest.raises(DataError, match=rf"{folder}/{file.name} is a broken link"):
        find(str(div2k), 2)
    file.unlink()
    file.symlink_to(div2k / "away.png")
    assert len(find(str(div2k), 2)) == 3
