"""Our operators: as a library, and called directly, past MindSpore."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sr_app import kernels
from sr_app.kernels import direct

Array = NDArray[np.float32]


@pytest.fixture(scope="session")
def library() -> Path:
    """The library; skips where MindSpore's own operators are used."""
    path = kernels.choice("CPU").library
    if path is None:
        pytest.skip("our operators are not used here (SR_KERNELS=off, or no compiler)")
    return path


@pytest.fixture(scope="session")
def launch(library: Path) -> Callable[..., int]:
    """launch(name, arrays, shapes, types) -> status: call an operator as MindSpore does."""
    loaded = ctypes.CDLL(str(library))

    def call(
        name: str,
        arrays: Sequence[NDArray[np.generic]],
        shapes: Sequence[Sequence[int]] | None = None,
        types: Sequence[str] | None = None,
    ) -> int:
        shapes = [array.shape for array in arrays] if shapes is None else shapes
        return direct.launch(loaded, name, arrays, shapes, types or ["float32"] * len(arrays))

    return call
