"""A larger picture from a picture: what goes in (gray, alpha, 16 bit, profile) comes out."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sr_app.image.picture import Picture
from sr_app.image.resize import imresize
from sr_app.inference.model import Model, Progress


def upscale(picture: Picture, model: Model, progress: Progress | None = None) -> Picture:
    """Enlarge by the model's scale: colour by the network, alpha by bicubic.

    Gray is seen by the network as three equal channels, and the mean of its three outputs is kept.
    16-bit pictures keep their depth: the network works in float32 on the range 0..255. `progress`
    is told (tiles done, tiles in all).
    """
    most = np.iinfo(picture.pixels.dtype).max
    unit = np.float32(most / 255)
    gray = picture.color.shape[2] == 1
    rgb = np.broadcast_to(picture.color, (picture.height, picture.width, 3))
    # Beyond the picture's edge the network sees zeros, which tint the border. It is given the
    # picture's reflection instead, as far as it looks. (Scores are taken without, as published.)
    reach = model.config.receptive_radius
    around = ((reach, reach), (reach, reach), (0, 0))
    low = np.pad(rgb.astype(np.float32) / unit, around, mode="symmetric")
    margin = slice(model.scale * reach, -model.scale * reach)
    high = model.enhance(low, progress)[margin, margin] * unit
    if gray:
        high = high.mean(axis=2, keepdims=True)
    color: NDArray[Any] = np.rint(np.clip(high, 0, most)).astype(picture.pixels.dtype)
    if picture.alpha is None:
        return replace(picture, pixels=color)
    alpha = imresize(picture.alpha, model.scale)
    return replace(picture, pixels=np.concatenate([color, alpha], axis=2))
