"""Small networks, as models and as checkpoints."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sr_app.inference.model import Model
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights


@pytest.fixture(scope="session")
def network() -> Callable[..., EDSR]:
    """A seeded network of one block of eight features."""

    def make(scale: int = 2, seed: int = 1) -> EDSR:
        made = EDSR(EDSRConfig(scale=scale, blocks=1, features=8))
        initialise(made, seed)
        made.set_train(False)
        return made

    return make


@pytest.fixture(scope="session")
def model(network: Callable[..., EDSR]) -> Model:
    """An untrained x2 model."""
    made = network()
    return Model(made.config, weights.gather(made), "untrained")


@pytest.fixture
def checkpoint(tmp_path: Path, network: Callable[..., EDSR]) -> Path:
    """The same in a file."""
    made = network()
    path = tmp_path / "untrained.safetensors"
    weights.write(path, Weights(made.config, weights.gather(made)))
    return path
