"""LR from HR: sr_app/data/degradation.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr_app.data.degradation import crop_to_multiple, low_from_high, read_pair
from sr_app.errors import DataError
from sr_app.image.files import read_rgb

Save = Callable[..., None]


@given(height=st.integers(4, 30), width=st.integers(4, 30), scale=st.integers(2, 4))
def test_low_has_the_size_of_high_over_the_scale_rounded_down(
    height: int, width: int, scale: int
) -> None:
    high = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
    low = low_from_high(high, scale)
    assert low.shape == (height // scale, width // scale, 3) and low.dtype == np.uint8
    cropped = crop_to_multiple(high, scale)
    assert cropped.shape == (low.shape[0] * scale, low.shape[1] * scale, 3)
    assert np.shares_memory(cropped, high) and (cropped[0, 0] == high[0, 0]).all()
    assert (low_from_high(cropped, scale) == low).all()


def test_a_uniform_picture_stays_what_it_is() -> None:
    high = np.full((12, 15, 3), (3, 130, 251), np.uint8)
    assert (low_from_high(high, 3) == (3, 130, 251)).all()


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_low_of_set5_is_the_published_file_to_the_last_bit(sr_data: Path, scale: int) -> None:
    folder = sr_data / "benchmarks/Set5"
    for high in (folder / "HR").iterdir():
        published = read_rgb(folder / f"LR_bicubic/X{scale}/{high.stem}x{scale}.png")
        low, cropped = read_pair(high, None, scale)
        assert (low == published).all()
        assert cropped.shape[:2] == (low.shape[0] * scale, low.shape[1] * scale)


def test_a_low_file_is_read_and_high_is_cropped_to_it(tmp_path: Path, save: Save) -> None:
    save(tmp_path, "a.png", size=(26, 31))
    save(tmp_path, "ax3.png", size=(8, 10))
    low, high = read_pair(tmp_path / "a.png", tmp_path / "ax3.png", 3)
    assert (low == read_rgb(tmp_path / "ax3.png")).all()
    assert (high == read_rgb(tmp_path / "a.png")[:24, :30]).all()


def test_pixels_that_do_not_fit_are_an_error(tmp_path: Path, save: Save) -> None:
    save(tmp_path, "a.png", "b.png", size=(3, 20))
    with pytest.raises(DataError, match=r"must be 10 x 1, but .*b.png is 20 x 3"):
        read_pair(tmp_path / "a.png", tmp_path / "b.png", 2)
    with pytest.raises(DataError, match=r"a.png is 20 x 3 pixels: too small for scale 4"):
        read_pair(tmp_path / "a.png", None, 4)
