"""Scores of a method on a benchmark set, by a named protocol."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sr_app.data.benchmarks import Pair
from sr_app.image.metrics import PROTOCOLS, Score
from sr_app.image.resize import imresize
from sr_app.inference.model import Enhance, to_uint8

Upscale = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""RGB (h, w, 3) -> (scale * h, scale * w, 3), uint8."""


@dataclass(frozen=True)
class PictureScore:
    """One picture's score and the result that earned it."""

    pair: Pair
    result: NDArray[np.uint8]
    score: Score


def bicubic(scale: int) -> Upscale:
    """MATLAB's bicubic imresize to uint8: the field's baseline."""
    return lambda low: imresize(low, scale)


def network(enhance: Enhance) -> Upscale:
    """A network's float output, clamped and rounded to uint8 as every protocol asks for."""
    return lambda low: to_uint8(enhance(low.astype(np.float32)))


def score(upscale: Upscale, pair: Pair, protocol: str, scale: int) -> PictureScore:
    """Enlarge one picture and score the result; `protocol` is a name in PROTOCOLS."""
    result = upscale(pair.low)
    return PictureScore(pair, result, PROTOCOLS[protocol].score(result, pair.high, scale))


def mean(scores: Iterable[Score]) -> Score:
    """The mean of the pictures' scores, PSNR in dB (not of their errors), as tables have it."""
    each = list(scores)
    return Score(
        float(np.mean([score.psnr for score in each])),
        float(np.mean([score.ssim for score in each])),
    )
