"""The step: both modes agree, repeats are equal to the bit, bad numbers change nothing."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from sr_app import kernels
from sr_app.nets.description import EDSRConfig
from sr_app.training.config import OptimizerConfig
from sr_app.training.loop import build
from sr_app.training.step import LOSSES, TrainStep
from tests.training.conftest import tiny

RATE = Tensor(1e-3, ms.float32)


def batch(seed: int) -> tuple[Tensor, Tensor]:
    random = np.random.default_rng(seed)
    low = random.uniform(0, 255, (2, 3, 8, 8)).astype(np.float32)
    return Tensor(low), Tensor(low.repeat(2, axis=2).repeat(2, axis=3))


def taken(step: TrainStep, steps: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of some steps, and all that they changed."""
    losses = [float(step(*batch(k), RATE)[0].asnumpy()) for k in range(steps)]
    return losses, {p.name: p.asnumpy().copy() for p in step.get_parameters()}  # else a view


def test_modes_give_the_same_numbers() -> None:
    """To 1e-5 after 10 steps: the modes order float32 sums differently."""
    graph = taken(build(tiny()), 10)
    pynative = taken(build(tiny(mode="pynative")), 10)
    np.testing.assert_allclose(graph[0], pynative[0], rtol=1e-5)
    for name, values in graph[1].items():
        if not name.startswith("adam"):
            np.testing.assert_allclose(values, pynative[1][name], rtol=0, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_to_the_bit() -> None:
    first, again = (taken(build(tiny()), 5)[1] for _ in range(2))
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])


def test_the_loss_falls() -> None:
    step = build(tiny(optimizer=OptimizerConfig(learning_rate=3e-3)))
    losses = [float(step(*batch(0), RATE)[0].asnumpy()) for _ in range(150)]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_gradient_that_is_not_finite_changes_nothing(mode: str, bad: float) -> None:
    """mindyolo issues 441 and 402: not the weights, moments, average, nor any count."""
    step = build(tiny(mode=mode))
    _, before = taken(step, 2)
    low, high = batch(0)
    loss, norm = step(low, high * bad, RATE)
    assert not np.isfinite((loss + norm).asnumpy())
    for parameter in step.get_parameters():
        np.testing.assert_array_equal(parameter.asnumpy(), before[parameter.name])
    step(low, high, RATE)
    assert any((p.asnumpy() != before[p.name]).any() for p in step.get_parameters())


def test_clipping_bounds_what_reaches_adam() -> None:
    """Adam's first moment after one step is 0.1 of the clipped gradient."""
    step = build(tiny(optimizer=OptimizerConfig(clip_norm=0.5)))
    _, norm = step(*batch(0), RATE)
    assert norm.asnumpy() > 0.5
    first = np.concatenate([p.asnumpy().ravel() for p in step.optimizer.first])
    assert np.linalg.norm(first) == pytest.approx(0.05, rel=1e-4)


def test_losses_have_their_values() -> None:
    output, high = Tensor(np.array([0.0, 3.0], np.float32)), Tensor(np.zeros(2, np.float32))
    assert float(LOSSES["l1"](output, high).asnumpy()) == 1.5
    expected = (0.255 + (9 + 0.255**2) ** 0.5) / 2
    charbonnier = float(LOSSES["charbonnier"](output, high).asnumpy())
    assert charbonnier == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_a_loss_over_the_limit_changes_nothing(mode: str) -> None:
    step = build(tiny(mode=mode))
    _, before = taken(step, 2)
    low, high = batch(0)
    value, _ = step(low, high, RATE, Tensor(np.inf, ms.float32))
    _, after = changed(step, before)
    assert after
    limit = Tensor(0.5 * float(value.asnumpy()), ms.float32)
    before = {p.name: p.asnumpy().copy() for p in step.get_parameters()}
    step(low, high, RATE, limit)
    assert changed(step, before) == (0, False)


def changed(step: TrainStep, before: dict[str, np.ndarray]) -> tuple[int, bool]:
    """How many of the arrays a step changed, and whether any."""
    count = sum((p.asnumpy() != before[p.name]).any() for p in step.get_parameters())
    return int(count), count > 0


def test_float16_with_a_loss_scale_takes_nearly_the_step_of_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the CPU by MindSpore's operators, which have float16, slowly; no accelerator was there.

    Loss and norm to 1 %: float16 has 11 bits. An overflow, here by a scale that is far too large,
    changes nothing.
    """
    monkeypatch.setattr(kernels, "library", lambda: None)
    single, half = build(tiny()), build(tiny(precision="float16"))
    low, high = batch(0)
    scale = Tensor(2.0**10, ms.float32)
    wanted = [float(each.asnumpy()) for each in single(low, high, RATE)]
    found = [float(each.asnumpy()) for each in half(low, high, RATE, None, scale)]
    assert found != wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-2)
    before = {p.name: p.asnumpy().copy() for p in half.get_parameters()}
    loss, norm = half(low, high, RATE, None, Tensor(2.0**40, ms.float32))
    assert np.isfinite(loss.asnumpy()) and not np.isfinite(norm.asnumpy())
    assert changed(half, before) == (0, False)


def test_a_rate_that_explodes_with_the_clip_off_does_not_with_it_on() -> None:
    """Of 120 batches the 61st has pixels 10,000 times too bright, whose gradients are 100,000 times
    the usual ones. Adam goes on along them for many steps: about 30 rates further in every weight.
    Seen: the loss grows 72 times without the clip, and doesn't grow with it."""
    grown = {}
    for clip in (None, 10.0):
        settings = OptimizerConfig(learning_rate=1e-2, clip_norm=clip)
        step = build(tiny(network=EDSRConfig(blocks=2, features=8), optimizer=settings))
        losses = []
        for number in range(120):
            low, high = batch(number % 4)
            loss, norm = step(low * (1e4 if number == 60 else 1.0), high, Tensor(1e-2, ms.float32))
            assert np.isfinite(norm.asnumpy())
            losses.append(float(loss.asnumpy()))
        grown[clip] = max(losses[61:]) / np.median(losses[52:60])
    assert grown[None] > 10
    assert grown[10.0] < 2
