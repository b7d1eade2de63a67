"""What goes in comes out larger: gray, alpha, 16 bits, profile."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sr_app.image.picture import Picture
from sr_app.inference.model import Model, Progress
from sr_app.inference.upscale import upscale
from sr_app.nets.edsr import EDSRConfig


class Nearest:
    """Stands in for a model: repeats each pixel, and would show any change of values."""

    scale = 2
    config = EDSRConfig(blocks=1)

    def enhance(
        self, low: NDArray[np.float32], progress: Progress | None = None, tile: int = 192
    ) -> NDArray[np.float32]:
        return low.repeat(2, axis=0).repeat(2, axis=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_depth_and_channels_are_kept(dtype: type, channels: int) -> None:
    most = np.iinfo(dtype).max
    pixels = np.random.default_rng(0).integers(0, most + 1, (5, 6, channels)).astype(dtype)
    pixels[0, 0], pixels[0, 1] = 0, most
    large = upscale(Picture(pixels, icc=b"profile", exif=b"Exif\0\0x"), Nearest())  # type: ignore[arg-type]
    assert large.pixels.dtype == dtype
    assert large.pixels.shape == (10, 12, channels)
    assert (large.icc, large.exif) == (b"profile", b"Exif\0\0x")
    colors = 1 if channels <= 2 else 3
    expected = pixels[..., :colors].repeat(2, axis=0).repeat(2, axis=1)
    np.testing.assert_array_equal(large.pixels[..., :colors], expected)


def test_opaque_alpha_stays_opaque(model: Model) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 4), np.uint8)
    pixels[..., 3] = 255
    assert (upscale(Picture(pixels), model).pixels[..., 3] == 255).all()


def test_gray_is_seen_as_three_equal_channels(model: Model) -> None:
    gray = np.random.default_rng(0).integers(0, 256, (6, 7, 1), np.uint8)
    as_rgb = upscale(Picture(gray.repeat(3, axis=2)), model).pixels.astype(float)
    large = upscale(Picture(gray), model).pixels
    np.testing.assert_allclose(large, as_rgb.mean(axis=2, keepdims=True), atol=1)  # both rounded


def test_the_border_is_not_tinted(model: Model) -> None:
    """A flat picture's edge is what its middle is; with zeros beyond the edge it would not be."""
    flat = np.full((40, 41, 3), (10, 250, 60), np.uint8)
    large = upscale(Picture(flat), model).pixels[::2, ::2]
    np.testing.assert_array_equal(large, np.broadcast_to(large[20, 20], large.shape))
