"""Batches: sr_app/data/patches.py."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr_app.data import patches
from sr_app.data.cache import PixelCache
from sr_app.data.patches import Batch, batch, batches, crops, require_patch
from sr_app.errors import DataError


def synthetic(scale: int, sizes: Sequence[tuple[int, int]]) -> PixelCache:
    """LR pixels tell (row, column, picture); each HR pixel is the LR pixel that it lies in."""
    lows = []
    for number, (height, width) in enumerate(sizes):
        rows, columns = np.indices((height, width), np.uint8)
        lows.append(np.stack([rows, columns, np.full_like(rows, number)], axis=2))
    highs = tuple(low.repeat(scale, axis=0).repeat(scale, axis=1) for low in lows)
    names = tuple(f"{number}.png" for number in range(len(sizes)))
    return PixelCache("synthetic", scale, names, tuple(lows), highs, "0" * 32)


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(
    scale=st.integers(2, 4),
    patch=st.integers(1, 9),
    seed=st.integers(0, 2**64),
    step=st.integers(0, 10**6),
)
def test_the_high_patch_is_the_low_patch_enlarged_however_it_was_turned(
    scale: int, patch: int, seed: int, step: int
) -> None:
    cache = synthetic(scale, [(9, 12), (20, 9)])
    low, high = batch(cache, seed=seed, step=step, batch_size=5, patch=patch)
    assert low.shape == (5, 3, patch, patch) and low.dtype == np.float32
    assert high.shape == (5, 3, patch * scale, patch * scale) and high.dtype == np.float32
    assert low.flags.c_contiguous and high.flags.c_contiguous
    np.testing.assert_array_equal(high, low.repeat(scale, axis=2).repeat(scale, axis=3))


def test_values_are_the_pictures_bytes_as_floats() -> None:
    cache = synthetic(2, [(200, 10)])
    chosen = crops(cache, seed=1, step=2, batch_size=8, patch=3)
    low, _ = batch(cache, seed=1, step=2, batch_size=8, patch=3)
    for crop, pixels in zip(chosen, low, strict=True):
        assert (pixels[0].min(), pixels[0].max()) == (crop.top, crop.top + 2)  # rows
        assert (pixels[1].min(), pixels[1].max()) == (crop.left, crop.left + 2)  # columns
        assert (pixels[2] == crop.picture).all()


def test_a_batch_is_a_function_of_seed_and_step_alone() -> None:
    cache = synthetic(2, [(40, 40), (50, 60)])

    def at(seed: int, step: int) -> Batch:
        return batch(cache, seed=seed, step=step, batch_size=4, patch=4)

    places = list(itertools.product((0, 1, 2**40), (0, 1, 7)))
    made = [at(*place) for place in places]
    assert all(same(at(*place), one) for place, one in zip(places, made, strict=True))
    assert not any(same(one, other) for one, other in itertools.combinations(made, 2))


def test_parts_of_a_batch_make_the_whole() -> None:
    cache = synthetic(2, [(40, 40), (50, 60)])
    whole = batch(cache, seed=1, step=2, batch_size=6, patch=4)
    parts = [batch(cache, seed=1, step=2, batch_size=6, patch=4, part=k, parts=3) for k in range(3)]
    assert same(tuple(np.concatenate(side) for side in zip(*parts, strict=True)), whole)


def test_all_eight_turns_and_all_positions_come_up() -> None:
    cache = synthetic(2, [(4, 5)])
    chosen = crops(cache, seed=0, step=0, batch_size=600, patch=3)
    # 2 x 3 positions and 8 turns, 48 kinds; one is missed in 600 with a chance of 48 exp(-12.5)
    assert len({(crop.top, crop.left, crop.turn) for crop in chosen}) == 48
    low, _ = batch(cache, seed=0, step=0, batch_size=600, patch=3)
    assert len({pixels.tobytes() for pixels in low}) == 48


def test_each_picture_is_equally_likely_whatever_its_size() -> None:
    cache = synthetic(2, [(4, 4), (100, 100), (8, 50), (4, 90)])
    chosen = crops(cache, seed=3, step=0, batch_size=4000, patch=4)
    counts = Counter(crop.picture for crop in chosen)
    # 1000 expected each, standard deviation 27; five of them
    assert all(abs(counts[i] - 1000) < 137 for i in range(4))


def test_fewer_pictures_than_the_batch_are_enough() -> None:
    """EDSR-PyTorch 49: ZeroDivisionError."""
    low, _ = batch(synthetic(2, [(6, 6)]), seed=0, step=0, batch_size=16, patch=6)
    assert low.shape[0] == 16


def test_a_picture_smaller_than_the_patch_is_an_error_that_names_it_and_its_size() -> None:
    cache = synthetic(3, [(20, 20), (9, 30), (20, 4)])
    require_patch(cache, 4)
    with pytest.raises(
        DataError, match=r"2 of 3 pictures .* 30 x 30 .*1.png .90 x 27., 2.png"
    ) as e:
        require_patch(cache, 10)
    assert "0.png" not in str(e.value)
    with pytest.raises(DataError, match=r"1\.png"):
        batch(cache, seed=0, step=0, batch_size=20, patch=10)
    with pytest.raises(DataError, match=r"1\.png"):
        batches(cache, seed=0, start_step=0, batch_size=1, patch=10)


def test_only_the_first_of_many_small_pictures_are_named() -> None:
    with pytest.raises(DataError, match=r"4.png .8 x 8. and 5 more"):
        require_patch(synthetic(2, [(4, 4)] * 10), 5)


def test_batches_come_in_order_from_the_step_asked_for() -> None:
    cache = synthetic(2, [(30, 30)])
    stream = batches(cache, seed=5, start_step=7, batch_size=2, patch=4, part=1, parts=2)
    with contextlib.closing(stream):
        for step in range(7, 20):
            expected = batch(cache, seed=5, step=step, batch_size=2, patch=4, part=1, parts=2)
            assert same(next(stream), expected)


def test_closing_ends_the_thread_even_when_its_queue_is_full() -> None:
    stream = batches(synthetic(2, [(30, 30)]), seed=0, start_step=0, batch_size=2, patch=4)
    next(stream)
    assert "patches" in {thread.name for thread in threading.enumerate()}
    stream.close()
    assert "patches" not in {thread.name for thread in threading.enumerate()}


def test_what_goes_wrong_in_the_thread_is_raised_where_the_batch_is_wanted() -> None:
    good = synthetic(2, [(30, 30)])
    low, high = batch(good, seed=0, step=0, batch_size=2, patch=4)

    def fail_at_2(*, step: int) -> Batch:
        if step == 2:
            raise OSError("the disk went away")
        return low, high

    stream = patches._ahead(fail_at_2, 0, "photos")
    next(stream), next(stream)
    with pytest.raises(OSError, match=r"the disk went away"):
        next(stream)


def test_the_wait_for_a_batch_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "WAIT_SECONDS", 0.05)
    answer = threading.Event()

    def hang(*, step: int) -> Batch:
        answer.wait(0.3)
        raise AssertionError("too late to matter")

    with pytest.raises(DataError, match=r"no batch of photos for .* SR_CACHE"):
        next(patches._ahead(hang, 0, "photos"))
