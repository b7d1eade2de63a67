"""The luma that super-resolution is scored on."""

import numpy as np
from numpy.typing import NDArray


def luma(rgb: NDArray[np.generic]) -> NDArray[np.float64]:
    """BT.601 studio-swing luma of RGB in 0..255, (..., 3): (...), in 16..235, not rounded.

    MATLAB's rgb2ycbcr to three decimals, as the published tables take it.
    """
    red, green, blue = (rgb[..., channel].astype(np.float64) for channel in range(3))
    result: NDArray[np.float64] = (65.738 * red + 129.057 * green + 25.064 * blue) / 256 + 16
    return result
