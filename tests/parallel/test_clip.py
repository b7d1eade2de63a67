"""Clipping by the global norm, against NumPy."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from sr_app.parallel.clip import ClipByGlobalNorm, shares
from sr_app.parallel.mesh import Axis, Mesh

GRADIENTS = [np.array([[3.0, 0.0], [0.0, 0.0]], np.float32), np.array([4.0], np.float32)]


def clipped(norm: float | None, gradients: list[np.ndarray]) -> tuple[list[np.ndarray], float]:
    clip = ClipByGlobalNorm(norm, [gradient.size for gradient in gradients])
    factor, before = clip(tuple(Tensor(gradient) for gradient in gradients))
    with np.errstate(invalid="ignore"):
        return [factor.asnumpy() * g for g in gradients], float(before.asnumpy())


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_one_factor_brings_the_joint_norm_to_the_bound(mode: int) -> None:
    """The bound is met within 1e-6 of it, by which the divisor is kept from 0."""
    ms.set_context(mode=mode)
    got, before = clipped(1.0, GRADIENTS)
    assert before == 5.0
    np.testing.assert_allclose(got[0], GRADIENTS[0] / 5, rtol=1e-6)
    np.testing.assert_allclose(got[1], GRADIENTS[1] / 5, rtol=1e-6)


@pytest.mark.parametrize("norm", [5.1, 1e9, None])
def test_gradients_within_the_bound_are_left_to_the_bit(norm: float | None) -> None:
    got, before = clipped(norm, GRADIENTS)
    assert before == 5.0
    for each, original in zip(got, GRADIENTS, strict=True):
        np.testing.assert_array_equal(each, original)


def test_zero_gradients_stay_zero() -> None:
    got, before = clipped(1.0, [np.zeros((2, 2), np.float32)])
    assert before == 0.0
    np.testing.assert_array_equal(got[0], 0)


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e30])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(bad: float) -> None:
    """1e30 squared overflows float32, too."""
    _, before = clipped(1.0, [GRADIENTS[0], np.array([bad], np.float32)])
    assert not np.isfinite(before)


@pytest.mark.parametrize(("data", "tensor"), [(2, 1), (1, 2), (2, 2), (3, 4)])
def test_every_gradient_is_squared_by_one_of_those_who_hold_it(data: int, tensor: int) -> None:
    """A replicated one by one rank of all, a split one by one rank for each of its parts."""
    sizes = [5, 100, 100, 7, 100, 1, 90, 80, 100, 2]
    split = [False, True, True, False, False, True, False, False, True, False]
    ranks = range(data * tensor)
    mine = [
        shares(
            sizes,
            split,
            Mesh(Axis(len(ranks), rank), Axis(data, rank // tensor), Axis(tensor, rank % tensor)),
        )
        for rank in ranks
    ]
    for number, is_split in enumerate(split):
        who = [rank for rank in ranks if number in mine[rank]]
        places = [rank % tensor for rank in who]
        assert sorted(places) == list(range(tensor)) if is_split else len(who) == 1


def test_squaring_is_shared_evenly() -> None:
    mine = [
        shares([100] * 64 + [1] * 64, [False] * 128, Mesh(Axis(4, k), Axis(4, k))) for k in range(4)
    ]
    assert [sum(100 if n < 64 else 1 for n in numbers) for numbers in mine] == [16 * 101] * 4
