"""Colours under transparent pixels mean nothing, and must not leak into what is seen."""

import numpy as np
from numpy.typing import NDArray

BLEED = 8
"""How far colours are carried into what is transparent, in pixels."""
_GRAY = 127.5


def without_hidden(color: NDArray[np.float32], alpha: NDArray[np.float32]) -> NDArray[np.float32]:
    """Colours (h, w, c) in 0..255 in which what is wholly transparent takes on its surroundings.

    alpha: (h, w, 1); transparent at 0 (and below). Pixel by pixel outwards from what is seen, each
    the mean of its neighbours that have a colour, `BLEED` pixels far; middle gray beyond. So the
    result at a pixel depends on the pixels at most BLEED away, and never on a hidden colour.
    """
    known = (alpha[..., 0] > 0).astype(np.float32)
    if known.all():
        return color
    import cv2  # it takes a while to load, and few pictures need it

    filled = np.where(known[..., None] > 0, color, 0)
    for _ in range(BLEED):
        weight = cv2.boxFilter(known, -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT)
        total = cv2.boxFilter(filled, -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT)
        grown = (known == 0) & (weight > 0)
        total = total.reshape(filled.shape)  # OpenCV drops a single channel
        filled[grown] = total[grown] / weight[grown][:, None]
        known[grown] = 1
    filled[known == 0] = _GRAY
    return filled
