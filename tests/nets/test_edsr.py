"""EDSR against the published counts, its receptive radius, and PyTorch on the same weights."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from sr_app import kernels
from sr_app.errors import ConfigError
from sr_app.nets.description import EDSRConfig, torch_names
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise

FULL = {"blocks": 32, "features": 256, "residual_scale": 0.1}


def small(scale: int = 2, **settings: object) -> EDSR:
    """Two blocks of eight features with seeded weights."""
    config = EDSRConfig(**{"scale": scale, "blocks": 2, "features": 8, **settings})
    network = EDSR(config)
    initialise(network, seed=1)
    network.set_train(False)
    return network


@pytest.mark.parametrize(("scale", "published"), [(2, 1.37e6), (3, 1.55e6), (4, 1.52e6)])
def test_baseline_has_the_published_number_of_parameters(scale: int, published: float) -> None:
    network = EDSR(EDSRConfig(scale=scale))
    counted = sum(p.size for p in network.trainable_params())
    assert counted == network.config.parameters
    assert counted == pytest.approx(published, abs=0.005e6)  # published with two decimals


@pytest.mark.parametrize(("scale", "published"), [(2, 40.7e6), (3, 43.7e6), (4, 43.1e6)])
def test_full_network_has_the_published_number_of_parameters(scale: int, published: float) -> None:
    assert EDSRConfig(scale=scale, **FULL).parameters == pytest.approx(published, abs=0.05e6)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_output_is_scale_times_larger(scale: int) -> None:
    low = Tensor(np.full((1, 3, 5, 7), 128, np.float32))
    assert small(scale)(low).shape == (1, 3, 5 * scale, 7 * scale)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_receptive_radius_is_exact(scale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change at one pixel reaches exactly as far as the halo of a tile assumes, not further.

    By MindSpore's convolution: ours works by tiles, within which rounding errors spread."""
    monkeypatch.setattr(kernels, "library", lambda: None)
    network = small(scale)
    radius = network.config.receptive_radius
    side = 2 * radius + 5
    low = np.random.default_rng(0).uniform(0, 255, (1, 3, side, side)).astype(np.float32)
    other = low.copy()
    other[..., side // 2, side // 2] += 1e4
    changed = (network(Tensor(low)) != network(Tensor(other))).asnumpy().any(axis=(0, 1))
    by_pixel = changed.reshape(side, scale, side, scale).any(axis=(1, 3))
    rows = np.flatnonzero(by_pixel.any(axis=1))
    assert (rows[0], rows[-1]) == (side // 2 - radius, side // 2 + radius)


def test_weights_are_drawn_as_pytorch_draws_them() -> None:
    """Uniform within 1 / sqrt(fan in); the bound is nearly reached by some of many draws."""
    for name, parameter in small(features=16).parameters_dict().items():
        fan_in = 27 if name.startswith("head") else 16 * 9
        largest = np.abs(parameter.asnumpy()).max() * np.sqrt(fan_in)
        assert largest <= 1
        if parameter.size > 400:
            assert largest > 0.98
            assert parameter.asnumpy().std() * np.sqrt(3 * fan_in) == pytest.approx(1, abs=0.08)


def test_weights_depend_on_the_seed_alone() -> None:
    first, again, other = small(), small(), small()
    initialise(other, seed=2)
    for a, b, c in zip(
        first.get_parameters(), again.get_parameters(), other.get_parameters(), strict=True
    ):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
        assert (a.asnumpy() != c.asnumpy()).any()


@pytest.mark.parametrize(
    "settings",
    [{"scale": 5}, {"blocks": 0}, {"features": 0}, {"residual_scale": 0.0}, {"slope": -1.0}],
)
def test_a_wrong_shape_is_refused_by_key(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"network.{next(iter(settings))} must be"):
        EDSRConfig(**settings)


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("residual_scale", [1.0, 0.1])
def test_output_and_gradients_are_pytorchs(scale: int, residual_scale: float) -> None:
    """Within 1e-4 on 0..255 for the output; gradients, sums over all pixels, to 1e-4 of the largest
    (float32 in two orders of summation)."""
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install -e '.[convert]'")
    from benchmarks.torch_edsr import TorchEDSR

    ours = small(scale, residual_scale=residual_scale, blocks=3)
    theirs = TorchEDSR(scale, blocks=3, features=8, residual_scale=residual_scale, slope=0.01)
    parameters = dict(theirs.named_parameters())
    names = torch_names(ours.config)
    paired = {}
    for name, parameter in ours.parameters_dict().items():
        cell, _, kind = name.rpartition(".")
        paired[name] = parameters.pop(f"{names[cell]}.{kind}")
        paired[name].data = torch.from_numpy(parameter.asnumpy().copy())
    assert not parameters, "every weight of the PyTorch network has a counterpart"

    random = np.random.default_rng(0)
    low = random.uniform(0, 255, (2, 3, 9, 11)).astype(np.float32)
    high = random.uniform(0, 255, (2, 3, 9 * scale, 11 * scale)).astype(np.float32)
    output = theirs(torch.from_numpy(low))
    (output - torch.from_numpy(high)).abs().mean().backward()
    np.testing.assert_allclose(
        ours(Tensor(low)).asnumpy(), output.detach().numpy(), rtol=0, atol=1e-4
    )

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return ops.abs(ours(x) - y).mean()

    weights = ours.trainable_params()
    gradients = ms.grad(loss, grad_position=None, weights=weights)(Tensor(low), Tensor(high))
    for weight, gradient in zip(weights, gradients, strict=True):
        expected = paired[weight.name].grad.numpy()
        np.testing.assert_allclose(
            gradient.asnumpy(), expected, rtol=0, atol=1e-4 * np.abs(expected).max()
        )


def test_plain_relu_gives_the_same_output_and_other_gradients() -> None:
    leaky, plain = small(), small(activation="relu")
    low = Tensor(np.random.default_rng(0).uniform(0, 255, (1, 3, 8, 8)).astype(np.float32))
    np.testing.assert_array_equal(leaky(low).asnumpy(), plain(low).asnumpy())

    def first_gradient(network: nn.Cell) -> np.ndarray:
        weights = [network.head.weight]
        return ms.grad(lambda x: network(x).sum(), None, weights)(low)[0].asnumpy()

    assert not np.allclose(first_gradient(leaky), first_gradient(plain), rtol=1e-4)
