"""Our operators called on arrays, past MindSpore: nothing to load but the library itself."""

import ctypes
import errno
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Operators:
    """The operators of `operators.cc` as functions of dense float32 arrays.

    Args:
        library: what `sr_app.kernels.choice` gives.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def __call__(self, name: str, inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The operator's one output, of this shape; MemoryError when it has not enough memory.

        Raises ValueError for arrays that the operator doesn't take (what was wrong with them is
        on stderr).
        """
        output = np.empty(shape, np.float32)
        arrays = [*(np.ascontiguousarray(each, np.float32) for each in inputs), output]
        count = len(arrays)
        rows = [(ctypes.c_int64 * each.ndim)(*each.shape) for each in arrays]
        sizes = ctypes.POINTER(ctypes.c_int64)
        status: int = self._library[name](
            count,
            (ctypes.c_void_p * count)(*(each.ctypes.data for each in arrays)),
            (ctypes.c_int * count)(*(each.ndim for each in arrays)),
            (sizes * count)(*(ctypes.cast(row, sizes) for row in rows)),
            (ctypes.c_char_p * count)(*[b"float32"] * count),
            None,
            None,
        )
        if status == errno.ENOMEM:
            raise MemoryError(f"{name} of {', '.join(str(each.shape) for each in arrays)}")
        if status != 0:
            raise ValueError(f"{name} refuses {', '.join(str(each.shape) for each in arrays)}")
        return output
