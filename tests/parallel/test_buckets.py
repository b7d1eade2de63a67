"""How gradients are put into buckets; what comes out is tested with ranks in test_equality.py."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sr_app.parallel.buckets import BYTES, fill_buckets

SIZES = st.lists(st.integers(1, 100), min_size=1, max_size=40)


@given(SIZES, st.integers(1, 400))
def test_each_tensor_is_in_one_bucket_the_last_first(sizes: list[int], most: int) -> None:
    buckets = fill_buckets(sizes, most)
    assert [number for bucket in buckets for number in bucket] == list(range(len(sizes)))[::-1]
    assert all(buckets)


@given(SIZES, st.integers(1, 400))
def test_a_bucket_is_full_but_not_too_full(sizes: list[int], most: int) -> None:
    held = [[sizes[number] * BYTES for number in bucket] for bucket in fill_buckets(sizes, most)]
    assert all(len(bucket) == 1 or sum(bucket) <= most for bucket in held)
    for bucket, following in itertools.pairwise(held):
        assert sum(bucket) + following[0] > most


def test_baselines_gradients_go_in_one_and_edsrs_in_few() -> None:
    trunk = [256, 256 * 256 * 9] * 65
    assert len(fill_buckets(trunk, 32 * 2**20)) == 5
    assert len(fill_buckets([64, 64 * 64 * 9] * 33, 32 * 2**20)) == 1
