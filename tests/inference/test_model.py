"""The model: any size, tiles, other weights, the ensemble."""

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from numpy.typing import NDArray

import sr_app
from sr_app.inference.model import Model, ensemble, to_uint8
from sr_app.nets import weights
from sr_app.nets.edsr import EDSR


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(0, 255, (height, width, 3)).astype(np.float32)


def whole(network: EDSR, low: NDArray[np.float32]) -> NDArray[np.float32]:
    """The network's output in PyNative, without tiles."""
    batch = Tensor(np.ascontiguousarray(low.transpose(2, 0, 1)[None]))
    return np.moveaxis(network(batch).asnumpy()[0], 0, 2)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (7, 3), (16, 24), (61, 83)])
def test_any_size_gives_what_the_plain_network_gives(
    model: Model, network: Callable[..., EDSR], size: tuple[int, int]
) -> None:
    """Within 1e-3 of 255: compiled and not, sums may be in another order."""
    low = picture(*size)
    high = model.enhance(low)
    assert high.shape == (2 * size[0], 2 * size[1], 3)
    np.testing.assert_allclose(high, whole(network(), low), rtol=0, atol=1e-3)


def test_tiles_joined_are_the_whole_picture(
    model: Model, network: Callable[..., EDSR], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the receptive radius as halo, within 1e-3 of 255 (the order of sums); with one pixel
    less the difference shows."""
    low = picture(45, 50)
    told: list[tuple[int, int]] = []
    tiled = model.enhance(low, lambda done, total: told.append((done, total)), tile=16)
    assert told == [(k, 12) for k in range(1, 13)]
    np.testing.assert_allclose(tiled, whole(network(), low), rtol=0, atol=1e-3)
    short = model.config.receptive_radius - 1
    monkeypatch.setattr(type(model.config), "receptive_radius", property(lambda self: short))
    assert np.abs(model.enhance(low, tile=16) - tiled).max() > 1e-3


def test_other_weights_are_used_at_once(model: Model, network: Callable[..., EDSR]) -> None:
    """After a first call, too, and back again: a compiled kernel easily keeps stale weights."""
    low = picture(16, 16)
    first = model.enhance(low)
    other = network(seed=2)
    model.fill(weights.gather(other))
    try:
        np.testing.assert_allclose(model.enhance(low), whole(other, low), rtol=0, atol=1e-3)
    finally:
        model.fill(weights.gather(network()))
    np.testing.assert_array_equal(model.enhance(low), first)


def test_a_model_is_what_its_checkpoint_says(checkpoint: Path, model: Model) -> None:
    loaded = sr_app.load(checkpoint)
    assert (loaded.scale, loaded.name, loaded.parameters) == (2, "untrained", model.parameters)
    low = picture(8, 8)
    np.testing.assert_array_equal(loaded.enhance(low), model.enhance(low))


def test_a_model_works_in_graph_mode_too(model: Model) -> None:
    """Validation runs inside a training process, whose mode is GRAPH_MODE."""
    low = picture(8, 8)
    expected = model.enhance(low)
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        np.testing.assert_array_equal(model.enhance(low), expected)
    finally:
        ms.set_context(mode=before)


def test_the_ensemble_of_a_method_without_direction_is_the_method() -> None:
    """Nearest neighbour commutes with flips and turns; float32 rounds the mean of 8 at 1e-5."""
    low = picture(5, 8)

    def nearest(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        return pixels.repeat(2, axis=0).repeat(2, axis=1)

    np.testing.assert_allclose(ensemble(nearest)(low), nearest(low), rtol=1e-6)


def test_the_ensemble_sees_all_eight_views() -> None:
    """Of a method that keeps only its input's top left pixel, each corner shows up twice."""
    low = np.zeros((2, 2, 3), np.float32)
    low[..., 0] = [[8, 16], [24, 32]]

    def corner_only(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        kept = np.zeros_like(pixels)
        kept[0, 0] = pixels[0, 0]
        return kept

    np.testing.assert_array_equal(ensemble(corner_only)(low), low / 4)


def test_rounding_clamps_and_does_not_truncate() -> None:
    """EDSR-PyTorch issue 163: without the clamp 260 would wrap to 4."""
    values = np.array([-3.0, 0.4, 0.6, 254.6, 260.0], np.float32)
    np.testing.assert_array_equal(to_uint8(values), [0, 0, 1, 255, 255])
