"""Our operators: as a library, and called directly, past MindSpore."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sr_app import kernels

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
        count = len(arrays)
        shapes = [array.shape for array in arrays] if shapes is None else shapes
        rows = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for shape in shapes]
        status: int = loaded[name](
            count,
            (ctypes.c_void_p * count)(*(array.ctypes.data for array in arrays)),
            (ctypes.c_int * count)(*map(len, shapes)),
            (ctypes.POINTER(ctypes.c_int64) * count)(
                *(ctypes.cast(row, ctypes.POINTER(ctypes.c_int64)) for row in rows)
            ),
            (ctypes.c_char_p * count)(*(t.encode() for t in types or ["float32"] * count)),
            None,
            None,
        )
        return status

    return call
