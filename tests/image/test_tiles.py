"""Tiles joined equal the whole picture, if and only if the halo is as wide as the reach."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import correlate

from sr_app.image.tiles import apply_tiled, mirrored, plan


def network(reach: int, scale: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Like a network: a zero-padded convolution of that reach, then an upscaling; whole numbers."""
    side = 2 * reach + 1
    kernel = np.random.default_rng(reach).integers(1, 9, (side, side, 1))

    def apply(pixels: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = correlate(pixels.astype(np.int64), kernel, mode="constant")
        return result.repeat(scale, axis=0).repeat(scale, axis=1)

    return apply


@settings(max_examples=100, deadline=None)
@given(
    height=st.integers(1, 24),
    width=st.integers(1, 24),
    tile=st.integers(1, 26),
    reach=st.integers(0, 4),
    more=st.integers(0, 2),
    scale=st.integers(1, 4),
)
def test_tiles_joined_equal_the_whole_for_any_size(
    height: int, width: int, tile: int, reach: int, more: int, scale: int
) -> None:
    pixels = np.random.default_rng(0).integers(1, 256, (height, width, 3), np.uint8)
    function = network(reach, scale)
    joined = apply_tiled(pixels, function, scale=scale, tile=tile, halo=reach + more)
    # Sums of integers: exact whatever the order, so no tolerance is needed.
    np.testing.assert_array_equal(joined, function(pixels))
    assert joined.dtype == np.int64


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_one_pixel_less_of_halo_is_seen(reach: int) -> None:
    pixels = np.random.default_rng(0).integers(1, 256, (20, 20, 1), np.uint8)
    function = network(reach, 2)
    joined = apply_tiled(pixels, function, scale=2, tile=10, halo=reach - 1)
    assert np.any(joined != function(pixels))


@settings(max_examples=100, deadline=None)
@given(
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    tile=st.integers(1, 70),
    halo=st.integers(0, 70),
)
def test_cores_cover_the_picture_once_and_are_even(
    height: int, width: int, tile: int, halo: int
) -> None:
    seen = np.zeros((height, width), int)
    sides: tuple[set[int], set[int]] = (set(), set())
    for piece in plan(height, width, tile, halo):
        seen[piece.core] += 1
        for core, outer, length, found in zip(
            piece.core, piece.outer, (height, width), sides, strict=True
        ):
            found.add(core.stop - core.start)
            assert outer.start == max(0, core.start - halo)
            assert outer.stop == min(length, core.stop + halo)
    assert np.all(seen == 1)
    assert all(max(found) <= tile and max(found) - min(found) <= 1 for found in sides)


def test_a_picture_that_fits_is_one_tile() -> None:
    assert len(plan(48, 64, 64, 10)) == 1
    assert len(plan(48, 65, 64, 10)) == 2


@pytest.mark.parametrize("sizes", [(0, 4, 4, 0), (4, 0, 4, 0), (4, 4, 0, 0), (4, 4, 4, -1)])
def test_impossible_sizes_are_an_error(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        plan(*sizes)


def test_a_function_of_another_scale_is_an_error() -> None:
    with pytest.raises(ValueError, match="scale 3"):
        apply_tiled(np.zeros((4, 4, 3)), network(0, 2), scale=3, tile=4, halo=0)


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    around=st.tuples(*[st.integers(0, 25)] * 4),
)
def test_beyond_the_edge_lies_the_reflection(
    height: int, width: int, around: tuple[int, int, int, int]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 2), np.uint8)
    above, below, left, right = around
    found = mirrored(pixels, slice(-above, height + below), slice(-left, width + right))
    tall = np.concatenate([pixels[::-1], pixels] * 60)  # NumPy 1's own padding is wrong this far
    wide = np.concatenate([tall[:, ::-1], tall] * 60, axis=1)
    top, side = 59 * height, 59 * width  # an odd number of pictures: there one stands upright
    expected = wide[top - above : top + height + below, side - left : side + width + right]
    np.testing.assert_array_equal(found, expected)
