"""What a picture may hold, and how it becomes 8-bit RGB."""

from typing import Any

import numpy as np
import pytest

from sr_app.errors import PictureError
from sr_app.image.picture import Banded, Picture


def pixels(channels: int, dtype: Any = np.uint8) -> Any:
    top = np.iinfo(dtype).max
    return np.random.default_rng(0).integers(0, top, (3, 5, channels), dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(("channels", "colors"), [(1, 1), (2, 1), (3, 3), (4, 3)])
def test_colour_and_alpha_are_parts_of_the_pixels(dtype: Any, channels: int, colors: int) -> None:
    picture = Picture(pixels(channels, dtype))
    assert (picture.height, picture.width) == (3, 5)
    np.testing.assert_array_equal(picture.color, picture.pixels[..., :colors])
    if channels == colors:
        assert picture.alpha is None
    else:
        assert picture.alpha is not None
        np.testing.assert_array_equal(picture.alpha, picture.pixels[..., colors:])


@pytest.mark.parametrize(
    "shape", [(3, 5), (3, 5, 0), (3, 5, 5), (0, 5, 3), (3, 0, 3), (1, 3, 5, 3)]
)
def test_another_shape_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(PictureError, match="must be"):
        Picture(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("dtype", [np.float64, np.int16, bool])
def test_another_type_is_an_error(dtype: Any) -> None:
    with pytest.raises(PictureError, match=np.dtype(dtype).name):
        Picture(np.zeros((3, 5, 3), dtype))


def test_rgb8_keeps_rgb_and_repeats_gray() -> None:
    rgb, gray = pixels(3), pixels(1)
    np.testing.assert_array_equal(Picture(rgb).rgb8(), rgb)
    result = Picture(gray).rgb8()
    assert result.shape == (3, 5, 3)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, np.repeat(gray, 3, axis=2))


def test_rgb8_rounds_16_bits_to_the_nearest() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1)
    expected = np.rint(np.arange(65536) / 257).astype(np.uint8)  # 257 is odd: there are no ties
    np.testing.assert_array_equal(Picture(values).rgb8()[..., 0].ravel(), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_rgb8_leaves_out_an_opaque_alpha_and_refuses_any_other(dtype: Any) -> None:
    rgba = pixels(4, dtype)
    rgba[..., 3] = np.iinfo(dtype).max
    np.testing.assert_array_equal(Picture(rgba).rgb8(), Picture(rgba[..., :3]).rgb8())
    rgba[1, 2, 3] -= 1
    with pytest.raises(PictureError, match="transparent"):
        Picture(rgba).rgb8()


def test_rgb8_refuses_float_whose_range_is_another() -> None:
    with pytest.raises(PictureError, match="float"):
        Picture(np.zeros((3, 5, 3), np.float32)).rgb8()


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_a_picture_in_bands_is_cut_anew_and_joined(rows: int) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    bands = Banded(whole.shape, whole.dtype, [whole[:4], whole[4:5], whole[5:]])
    cut = list(bands.cut(rows))
    assert [len(band) for band in cut[:-1]] == [rows] * (len(cut) - 1)
    np.testing.assert_array_equal(np.concatenate(cut), whole)
    again = Banded(whole.shape, whole.dtype, [whole[:4], whole[4:]])
    np.testing.assert_array_equal(again.whole().pixels, whole)
