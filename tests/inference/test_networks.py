"""Which network a factor gets."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from sr_app.errors import CheckpointError, ConfigError
from sr_app.inference import networks
from sr_app.inference.model import Model
from sr_app.inference.networks import Networks, shipped, shipped_for
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Networks for x2, x3 and x4 as the shipped ones (only their names matter here)."""
    for scale in (2, 3, 4):
        (tmp_path / f"edsr_light_x{scale}.safetensors").touch()
    monkeypatch.setattr(networks, "SHIPPED", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("factor", "scale"),
    [(0.3, 2), (1, 2), (2, 2), (2 + 1e-12, 2), (2.01, 3), (3, 3), (3.5, 4), (4, 4)],
)
def test_the_nearest_larger_network_is_taken(three: Path, factor: float, scale: int) -> None:
    assert shipped_for(factor) == (scale, three / f"edsr_light_x{scale}.safetensors")


def test_a_factor_that_none_reaches_is_an_error(three: Path) -> None:
    with pytest.raises(CheckpointError, match=r"x4\.5 or more is shipped \(there are: x2, x3, x4"):
        shipped_for(4.5)
    (three / "edsr_light_x3.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no network for x3 is shipped \(there are: x2, x4"):
        shipped(3)


def test_a_file_that_was_put_there_is_used_without_a_flag(
    command: Callable[..., tuple[int, str, str]],
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `benchmarks/ship.py` leaves it, in float16."""
    monkeypatch.setattr(networks, "SHIPPED", tmp_path)
    network = EDSR(EDSRConfig(blocks=1, features=4, scale=3))
    initialise(network, seed=1)
    held = Weights(network.config, weights.gather(network))
    weights.write(tmp_path / "edsr_light_x3.safetensors", held, "float16")
    for factor, size in (("3", (192, 144)), ("2.5", (160, 120))):
        status, _, err = command("upscale", pictures / "0.png", "-o", "a.png", "--scale", factor)
        assert status == 0, err
        with Image.open("a.png") as large:
            assert large.size == size
    status, _, err = command("upscale", pictures / "0.png", "-o", "a.png", "--scale", 4)
    assert status == 2 and "no network for x4 or more is shipped (there are: x3)" in err


def test_the_chosen_network_is_the_only_one(model: Model) -> None:
    only = Networks(model)
    assert only.usual_factor == 2
    assert only.reaching(1.5) is only.reaching(2)
    with pytest.raises(ConfigError, match=r"x2\.5 was asked for, but untrained enlarges x2"):
        only.reaching(2.5)
