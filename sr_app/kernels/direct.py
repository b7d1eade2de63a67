"""Our operators called on arrays, past MindSpore: nothing to load but the library itself."""

import ctypes
import errno
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def launch(
    library: ctypes.CDLL,
    name: str,
    arrays: Sequence[NDArray[np.generic]],
    shapes: Sequence[Sequence[int]],
    types: Sequence[str],
) -> int:
    """Call an operator as MindSpore does, with what it says of the arrays, inputs first.

    Gives its status: 0, ENOMEM, or another for what it refuses (the reason goes to stderr).
    """
    count = len(arrays)
    sizes = ctypes.POINTER(ctypes.c_int64)
    rows = [(ctypes.c_int64 * max(len(shape), 1))(*shape) for shape in shapes]
    status: int = library[name](
        count,
        (ctypes.c_void_p * count)(*(each.ctypes.data for each in arrays)),
        (ctypes.c_int * count)(*map(len, shapes)),
        (sizes * count)(*(ctypes.cast(row, sizes) for row in rows)),
        (ctypes.c_char_p * count)(*(each.encode() for each in types)),
        None,
        None,
    )
    return status


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
        shapes = [each.shape for each in arrays]
        status = launch(self._library, name, arrays, shapes, ["float32"] * len(arrays))
        if status == errno.ENOMEM:
            raise MemoryError(f"{name} of {', '.join(map(str, shapes))}")
        if status != 0:
            raise ValueError(f"{name} refuses {', '.join(map(str, shapes))}")
        return output
