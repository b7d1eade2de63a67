"""imresize against the field's published files, the definition, and its own promises."""

from math import ceil, floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sr_app.image.files import read
from sr_app.image.resize import imresize, imresize_bands


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("name", ["Set5", "Set14"])
def test_bicubic_reproduces_the_published_low_files(sr_data: Path, name: str, scale: int) -> None:
    folder = sr_data / "benchmarks" / name
    files = sorted((folder / "HR").glob("*.png"))
    assert len(files) == int(name.removeprefix("Set"))
    for file in files:
        high = read(file).pixels
        high = high[: len(high) // scale * scale, : high.shape[1] // scale * scale]
        low = read(folder / f"LR_bicubic/X{scale}/{file.stem}x{scale}.png").pixels
        assert np.count_nonzero(imresize(high, 1 / scale) != low) == 0, file


def by_definition(line: NDArray[np.float64], scale: float) -> list[float]:
    """One line resized by the formula, pixel by pixel, counted from 1 as in MATLAB."""
    stretch = min(scale, 1.0)

    def kernel(x: float) -> float:
        x = abs(stretch * x)
        if x <= 1:
            return stretch * (1.5 * x**3 - 2.5 * x**2 + 1)
        return stretch * (-0.5 * x**3 + 2.5 * x**2 - 4 * x + 2) if x < 2 else 0.0

    def pixel(position: int) -> float:
        position = (position - 1) % (2 * len(line))  # mirrored with the border's pixel repeated
        return float(line[min(position, 2 * len(line) - 1 - position)])

    result = []
    for out in range(1, ceil(len(line) * scale) + 1):
        center = out / scale + 0.5 * (1 - 1 / scale)
        reach = 2 / stretch
        taps = range(floor(center - reach), ceil(center + reach) + 1)
        total = sum(kernel(center - tap) for tap in taps)
        result.append(sum(kernel(center - tap) * pixel(tap) for tap in taps) / total)
    return result


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 40),
    scale=st.floats(0.05, 5) | st.sampled_from([1 / 2, 1 / 3, 1 / 4, 1, 2, 3, 4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_factor_follows_the_definition(length: int, scale: float, seed: int) -> None:
    line = np.random.default_rng(seed).uniform(0, 255, length)
    # Both sum the same products of doubles in another order: 1e-9 is far over that rounding
    # and far under a wrong tap.
    ours = imresize(line[:, None], scale)[:, 0]
    np.testing.assert_allclose(ours, by_definition(line, scale), rtol=0, atol=1e-9)


def test_a_dot_shows_the_kernel_stretched_by_two() -> None:
    line = np.zeros((1, 16))
    line[0, 8] = 1
    # 0.5 * cubic(0.25 + 0.5 k) by hand: 0.8671875, 0.2265625, -0.0703125, -0.0234375
    expected = [[-0.01171875, 0.11328125, 0.43359375, -0.03515625]]
    np.testing.assert_array_equal(imresize(line, size=(1, 8))[:, 2:6], expected)


def test_halves_are_rounded_up() -> None:
    assert imresize(np.array([[0], [1]], np.uint8), size=(1, 1)) == 1
    assert imresize(np.array([[2, 3]], np.uint16), size=(1, 1)) == 3


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_integers_are_clipped_where_the_kernel_overshoots(dtype: Any) -> None:
    top = np.iinfo(dtype).max
    step = np.repeat(np.array([[0] * 4 + [top] * 4], dtype), 8, axis=0)
    floats = imresize(step.astype(np.float64), 2.0)
    assert floats.min() < -1
    assert floats.max() > top + 1
    np.testing.assert_array_equal(imresize(step, 2.0), np.clip(np.floor(floats + 0.5), 0, top))


@pytest.mark.parametrize(
    ("size", "first"), [((6, 10), (6, 40)), ((12, 4), (24, 4)), ((30, 20), (24, 20))]
)
def test_the_smaller_scale_goes_first_and_integers_are_rounded_between(
    size: tuple[int, int], first: tuple[int, int]
) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (24, 40, 3), np.uint8)
    result = imresize(pixels, size=size)
    np.testing.assert_array_equal(result, imresize(imresize(pixels, size=first), size=size))
    other = (size[0], 40) if first[0] == 24 else (24, size[1])
    assert np.any(result != imresize(imresize(pixels, size=other), size=size))


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 4)),
    scale=st.floats(0.1, 4),
    value=st.integers(0, 255),
)
def test_a_flat_picture_stays_flat_and_has_the_rounded_up_size(
    shape: tuple[int, int, int], scale: float, value: int
) -> None:
    result = imresize(np.full(shape, value, np.uint8), scale)
    assert result.shape == (ceil(shape[0] * scale), ceil(shape[1] * scale), shape[2])
    assert result.dtype == np.uint8
    assert np.all(result == value)


def test_channels_are_resized_one_by_one() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (300, 211, 3), np.uint8)
    result = imresize(pixels, 1 / 3)
    for channel in range(3):
        np.testing.assert_array_equal(result[..., channel], imresize(pixels[..., channel], 1 / 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_the_type_is_kept_and_scale_one_changes_nothing(dtype: Any) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (9, 5, 2)).astype(dtype)
    result = imresize(pixels, 1.0)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, pixels)


@pytest.mark.parametrize(
    ("pixels", "wanted", "message"),
    [
        (np.zeros((4, 4)), {}, "either scale or size"),
        (np.zeros((4, 4)), {"scale": 2.0, "size": (8, 8)}, "either scale or size"),
        (np.zeros((4, 4)), {"scale": 0.0}, "must have pixels"),
        (np.zeros((4, 4)), {"size": (0, 3)}, "must have pixels"),
        (np.zeros(4), {"scale": 2.0}, r"\(h, w\)"),
        (np.zeros((0, 4)), {"scale": 2.0}, "not empty"),
        (np.zeros((4, 4), np.int32), {"scale": 2.0}, "int32"),
    ],
)
def test_what_cannot_be_resized_is_an_error(
    pixels: NDArray[Any], wanted: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        imresize(pixels, **wanted)


@settings(max_examples=100, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 4)),
    size=st.tuples(st.integers(1, 60), st.integers(1, 30)),
    cuts=st.lists(st.integers(1, 39), max_size=4),
)
def test_bands_are_resized_to_the_same_bits_as_the_whole(
    shape: tuple[int, int, int], size: tuple[int, int], cuts: list[int]
) -> None:
    """The same products are summed in the same order, so no tolerance is needed."""
    pixels = np.random.default_rng(0).uniform(-9, 300, shape).astype(np.float32)
    bands = [band for band in np.split(pixels, sorted(cuts)) if len(band)]
    joined = np.concatenate(list(imresize_bands(bands, shape[:2], size)))
    np.testing.assert_array_equal(joined, imresize(pixels, size=size))


def test_bands_are_given_out_before_the_last_has_come() -> None:
    bands = iter([np.ones((10, 4, 1), np.float32)] * 10)
    first = next(imresize_bands(bands, (100, 4), (80, 3)))
    assert 4 <= len(first) <= 8
    assert len(list(bands)) == 9
