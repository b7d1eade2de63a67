"""PSNR, SSIM, and the named protocols by which the field scores its pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log10

import numpy as np
from numpy.typing import NDArray

from sr_app.errors import DataError
from sr_app.image.color import luma

BICUBIC = "bicubic"
"""The method that all others are compared with."""
_PEAK = 255
_WINDOW = 11  # pixels a side of SSIM's Gaussian window


def psnr(a: NDArray[np.generic], b: NDArray[np.generic], shave: int = 0) -> float:
    """Peak signal-to-noise ratio in dB of two pictures in 0..255; infinity if they are equal.

    a, b: (h, w) or (h, w, c), the mean square error being taken over all of it but `shave` pixels
    on each side. Raises DataError for different or too small sizes.
    """
    a, b = _shaved(a, b, shave, least=1)
    error = float(np.mean((a - b) ** 2))
    return 10 * log10(_PEAK**2 / error) if error else inf


def ssim(a: NDArray[np.generic], b: NDArray[np.generic], shave: int = 0) -> float:
    """Structural similarity of two pictures in 0..255, at most 1 (Wang et al., TIP 13-4, 2004).

    a, b: (h, w) or (h, w, c), of which the channels' mean is taken; `shave` pixels are left out on
    each side. Gaussian window 11 x 11, sigma 1.5, K1 0.01, K2 0.03, windows that lie wholly inside.
    Raises DataError for different sizes or less than 11 pixels a side.
    """
    a, b = _shaved(a, b, shave, least=_WINDOW)
    from skimage.metrics import structural_similarity  # it loads much of SciPy: half a second

    value = structural_similarity(
        a,
        b,
        data_range=_PEAK,
        gaussian_weights=True,
        sigma=1.5,  # with truncation at 3.5 sigma: 11 pixels, and as many are cut off at the border
        use_sample_covariance=False,
        channel_axis=2 if a.ndim == 3 else None,
    )
    return float(value)


@dataclass(frozen=True)
class Score:
    """psnr in dB, infinity for equal pictures; ssim, at most 1."""

    psnr: float
    ssim: float


@dataclass(frozen=True)
class Protocol:
    """How a picture is scored: what `prepare` makes is compared, `shave(scale)` pixels cut."""

    name: str
    description: str
    prepare: Callable[[NDArray[np.uint8]], NDArray[np.generic]]
    shave: Callable[[int], int]

    def require_size(self, hr: NDArray[np.uint8], name: str, scale: int) -> None:
        """DataError that names the picture where too little is left of it to be scored."""
        least = _WINDOW + 2 * self.shave(scale)
        if min(hr.shape[:2]) < least:
            raise DataError(
                f"{name} is {hr.shape[1]} x {hr.shape[0]} pixels, and the {self.name} protocol "
                f"needs {least} a side at x{scale}; remove it from the set"
            )

    def score(self, sr: NDArray[np.uint8], hr: NDArray[np.uint8], scale: int) -> Score:
        """Score a result against the truth, both RGB (h, w, 3), uint8; raises DataError."""
        for pixels in (sr, hr):
            if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
                raise DataError(
                    f"the {self.name} protocol scores RGB pictures (h, w, 3) of uint8, "
                    f"got {pixels.shape} of {pixels.dtype}; read them with read_rgb"
                )
        a, b, shave = self.prepare(sr), self.prepare(hr), self.shave(scale)
        return Score(psnr(a, b, shave), ssim(a, b, shave))


def _same(rgb: NDArray[np.uint8]) -> NDArray[np.generic]:
    return rgb


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("benchmark", "luma (BT.601, not rounded), border of scale cut", luma, lambda s: s),
        Protocol("div2k", "RGB, border of scale + 6 cut", _same, lambda s: s + 6),
        Protocol("rgb", "RGB, border of scale cut", _same, lambda s: s),
    )
}


def _shaved(
    a: NDArray[np.generic], b: NDArray[np.generic], shave: int, least: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if a.shape != b.shape:
        raise DataError(
            f"pictures of different sizes can't be compared: {a.shape} and {b.shape}; "
            "crop the truth to low size x scale"
        )
    height, width = a.shape[0] - 2 * shave, a.shape[1] - 2 * shave
    if min(height, width) < least:
        raise DataError(
            f"a picture of {a.shape} is too small to be scored: {shave} pixels are cut "
            f"on each side and {least} x {least} must be left"
        )
    inside = slice(shave, shave + height), slice(shave, shave + width)
    return a[inside].astype(np.float64), b[inside].astype(np.float64)
