"""Taps see what they are asked for, whichever way the network runs, and leave nothing behind."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sr_app.errors import ConfigError
from sr_app.inference.engines import installed
from sr_app.inference.inspect import forward_numbers, gradients, layers_of, tapped
from sr_app.inference.model import Model
from sr_app.inference.static import StaticNetwork
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise


@pytest.fixture
def low() -> NDArray[np.float32]:
    return np.random.default_rng(0).uniform(0, 255, (12, 20, 3)).astype(np.float32)


def leaky(slope: float) -> Model:
    made = EDSR(EDSRConfig(blocks=2, features=8, slope=slope))
    initialise(made, seed=1)
    return Model(made.config, weights.gather(made), "leaky")


def test_taps_at_the_boundary_keep_the_network_compiled(
    model: Model, low: NDArray[np.float32]
) -> None:
    expected, engine = model.enhance(low), model.engine
    with tapped(model, ["head", "trunk"]) as taps:
        assert model.engine is engine
        np.testing.assert_array_equal(model.enhance(low), expected)
    assert taps.note == ""
    assert {name: each.shape for name, each in taps.features.items()} == {
        "head": (1, 8, 12, 20),
        "trunk": (1, 8, 12, 20),
    }
    model.enhance(low[:8])
    assert taps.features["head"].shape == (1, 8, 12, 20)  # no longer looked at


def test_the_native_engine_can_be_tapped_at_the_same_places(
    model: Model, low: NDArray[np.float32]
) -> None:
    if not installed("native"):
        pytest.skip("needs our operators (SR_KERNELS=off, or no compiler)")
    native = Model(model.config, model.arrays, "native", "native")
    with tapped(model, ["head", "trunk"]) as expected, tapped(native, ["head", "trunk"]) as taps:
        np.testing.assert_array_equal(native.enhance(low), model.enhance(low))
    for name in ("head", "trunk"):
        np.testing.assert_array_equal(taps.features[name], expected.features[name])


@pytest.fixture(params=[ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["", "after a training"])
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """The mode that MindSpore is found in."""
    ms.set_context(mode=request.param)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.usefixtures("mode")
def test_a_layer_inside_switches_to_pynative_and_says_so(
    model: Model, low: NDArray[np.float32]
) -> None:
    """Both ways agree within 1e-3 of 255: cell by cell sums are in another order. The activation
    has a `bprop` of its own, for which MindSpore calls no hook, and in GRAPH_MODE it calls none."""
    expected, engine = model.enhance(low), model.engine
    with tapped(model, ["head", "trunk"]) as outside:
        model.enhance(low)
    with tapped(model, ["head", "trunk", "*.activation"]) as taps:
        np.testing.assert_allclose(model.enhance(low), expected, rtol=0, atol=1e-3)
    assert "trunk.blocks.0.activation lies inside a compiled part" in taps.note
    assert set(taps.features) == {"head", "trunk", "trunk.blocks.0.activation"}
    assert taps.features["trunk.blocks.0.activation"].min() == 0
    for name in ("head", "trunk"):
        np.testing.assert_allclose(taps.features[name], outside.features[name], rtol=0, atol=1e-3)
    assert model.engine is engine and isinstance(engine, StaticNetwork) and engine.look is None


def test_taps_are_undone_by_an_error(model: Model, low: NDArray[np.float32]) -> None:
    engine = model.engine
    with pytest.raises(ZeroDivisionError), tapped(model, ["trunk.blocks.*"]):
        raise ZeroDivisionError
    assert model.engine is engine


def test_layers_are_found_by_pattern(model: Model) -> None:
    assert layers_of(model, ["trunk.blocks.*.conv?", "head"]) == [
        "head",
        "trunk.blocks.0.conv1",
        "trunk.blocks.0.conv2",
    ]
    with pytest.raises(ConfigError, match=r"no layer matches 'body\.\*'; there are head, trunk"):
        layers_of(model, ["head", "body.*"])


def test_numbers_of_features() -> None:
    """Channels 0, 0 and -1..2: the mean of twelve values, two channels dead."""
    features = np.zeros((1, 3, 2, 2), np.float32)
    features[0, 2] = [[-1, 0], [1, 2]]
    numbers = forward_numbers(features)
    assert (numbers.channels, numbers.dead) == (3, 2)
    assert numbers.mean == pytest.approx(2 / 12)
    assert numbers.zeros == pytest.approx(9 / 12)
    assert numbers.spread == pytest.approx(features.std())


@pytest.mark.usefixtures("mode")
def test_gradients_agree_with_finite_differences() -> None:
    """The gradient of the loss by the tail's result is sign / count, whose norm is
    1 / sqrt(count)."""
    high = np.random.default_rng(0).integers(0, 256, (17, 20, 3), np.uint8)  # cut to 16 x 20
    found = gradients(leaky(0.01), high, ["tail", "trunk.blocks.*"])
    assert found["tail"].norm == pytest.approx((3 * 16 * 20) ** -0.5, rel=1e-5)
    assert all(each.norm > 0 for each in found.values())


def test_the_leak_is_seen() -> None:
    """With a slope of 1 about as much passes where units are off as where they are on; without
    one, nothing."""
    high = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    layers = ["trunk.blocks.*.activation"]
    shares = {
        slope: [each.leaked for each in gradients(leaky(slope), high, layers).values()]
        for slope in (0.0, 0.01, 1.0)
    }
    assert shares[0.0] == [0, 0]
    assert all(0 < share < 0.05 for share in shares[0.01])
    assert all(0.2 < share < 0.8 for share in shares[1.0])


def test_other_engines_cannot_be_looked_into(model: Model) -> None:
    class Other:
        name = "other"

        def forward(self, low: NDArray[np.float32]) -> NDArray[np.float32]:
            return low

        def fill(self, arrays: weights.Arrays) -> None:
            pass

    other = Model(model.config, None, "other", Other())
    with (
        pytest.raises(ConfigError, match="only our own engines can be looked into"),
        tapped(other, ["head"]),
    ):
        pass


def test_inspect_by_command(command: Callable[..., tuple[int, str, str]], checkpoint: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 30, 3), np.uint8)).save("a.png")
    files = ("--json", "a.json", "--maps", "maps.png", "--chart", "chart.png")
    status, out, err = command(
        "inspect", "a.png", "--checkpoint", checkpoint, "--gradients", *files
    )
    assert status == 0, err
    assert "trunk.blocks.0.activation" in out and "lies inside a compiled part" in err
    numbers = json.loads(Path("a.json").read_text())["trunk.blocks.0.activation"]
    assert set(numbers) == {"mean", "spread", "zeros", "channels", "dead", "norm", "leaked"}
    for name in ("maps.png", "chart.png"):
        with Image.open(name) as drawn:
            assert len(np.unique(np.asarray(drawn))) > 5
    status, _, err = command("inspect", "a.png", "--checkpoint", checkpoint, "--layers", "body")
    assert status == 2 and "no layer matches 'body'" in err


def test_sr_inspect_tells_in_any_run(
    command: Callable[..., tuple[int, str, str]],
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save("a.png")
    words = ("upscale", "a.png", "--checkpoint", checkpoint)
    assert "trunk" not in command(*words)[2]
    monkeypatch.setenv("SR_INSPECT", "trunk,head")
    status, _, err = command(*words)
    assert status == 0 and "engine mindspore" in err
    assert "trunk: 1 x 8 x " in err and "head: 1 x 8 x " in err and "compiled" not in err
    monkeypatch.setenv("SR_INSPECT", "trunk.*")
    assert "trunk.blocks.0.conv1: 1 x 8 x " in command(*words)[2]
