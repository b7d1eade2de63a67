"""What goes in comes out larger: gray, alpha, depth, profile; tiles, sizes, little memory."""

import errno
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sr_app.errors import PictureError
from sr_app.image.picture import Picture, white
from sr_app.image.resize import imresize
from sr_app.inference.model import Model
from sr_app.inference.upscale import Upscaler
from tests.inference.nearest import Nearest


def upscale(picture: Picture, model: Any, tile: int = 192, **more: Any) -> Picture:
    return Upscaler(model, tile).banded(picture, **more).whole()


def noise(channels: int, dtype: Any = np.uint8, size: tuple[int, int] = (5, 6)) -> NDArray[Any]:
    values = np.random.default_rng(0).uniform(0, 1, (*size, channels)) * white(dtype)
    return np.rint(values).astype(dtype) if dtype != np.float32 else values.astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_depth_channels_and_notes_are_kept(dtype: type, channels: int) -> None:
    pixels = noise(channels, dtype)
    pixels[0, 0], pixels[0, 1] = 0, white(dtype)
    if channels in (2, 4):
        pixels[..., -1] = white(dtype)
    picture = Picture(pixels, b"profile", b"Exif\0\0x", (300, 300))
    large = upscale(picture, Nearest())
    assert large.pixels.dtype == dtype
    assert large.pixels.shape == (10, 12, channels)
    assert large.notes == picture.notes
    expected = pixels.repeat(2, axis=0).repeat(2, axis=1)
    # to and from 0..255 a float32 is rounded twice, by 6e-8 of it each
    np.testing.assert_allclose(large.pixels, expected, rtol=3e-7 if dtype == np.float32 else 0)


def test_float_is_not_clamped_and_integers_are() -> None:
    """The network may go beyond; what a float holds beyond white comes through."""

    class Beyond(Nearest):
        def enhance(self, *given: Any, **more: Any) -> NDArray[np.float32]:
            return super().enhance(*given, **more) * 2 - 100

    bright = np.full((2, 2, 3), 2.0, np.float32)
    assert upscale(Picture(bright), Beyond()).pixels == pytest.approx(4 - 100 / 255)
    assert (upscale(Picture(np.full((2, 2, 3), 200, np.uint8)), Beyond()).pixels == 255).all()
    assert (upscale(Picture(np.full((2, 2, 3), 2, np.uint8)), Beyond()).pixels == 0).all()


def test_opaque_alpha_stays_opaque(model: Model) -> None:
    pixels = noise(4)
    pixels[..., 3] = 255
    assert (upscale(Picture(pixels), model).pixels[..., 3] == 255).all()


def test_alpha_is_enlarged_by_bicubic() -> None:
    """Clamped and rounded at the end, not between the passes as imresize does with integers."""
    pixels = noise(4, size=(30, 20))
    alpha = upscale(Picture(pixels), Nearest(), tile=8).pixels[..., 3:]
    expected = np.clip(imresize(pixels[..., 3:].astype(np.float64), 2), 0, 255)
    np.testing.assert_allclose(alpha, expected, rtol=0, atol=0.5 + 1e-4)  # half a level: rounding


@pytest.mark.parametrize("channels", [2, 4])
def test_colour_under_transparency_does_not_leak(model: Model, channels: int) -> None:
    """Whatever is hidden, the result is the same to the bit, and an edge of one colour keeps it."""
    pixels = np.full((40, 40, channels), 200, np.uint8)
    y, x = np.mgrid[:40, :40] - 20
    pixels[..., -1] = np.where(x**2 + y**2 < 100, 255, 0)
    hidden = pixels[..., -1] == 0
    results = []
    for color in (0, 90, 255):
        pixels[hidden, :-1] = color
        results.append(upscale(Picture(pixels), model, tile=16).pixels)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    plain = upscale(Picture(np.full((40, 40, channels - 1), 200, np.uint8)), model)
    seen = results[0][..., -1] > 0
    # beyond what is carried outwards lies gray, too far away to be seen by this small network
    np.testing.assert_allclose(
        results[0][seen][:, :-1].astype(int), plain.pixels[seen].astype(int), rtol=0, atol=1
    )


def test_gray_is_seen_as_three_equal_channels(model: Model) -> None:
    gray = noise(1, size=(6, 7))
    as_rgb = upscale(Picture(gray.repeat(3, axis=2)), model).pixels.astype(float)
    large = upscale(Picture(gray), model).pixels
    np.testing.assert_allclose(large, as_rgb.mean(axis=2, keepdims=True), atol=1)  # both rounded


def test_the_border_is_not_tinted(model: Model) -> None:
    """A flat picture's edge is what its middle is; with zeros beyond the edge it would not be."""
    flat = np.full((40, 41, 3), (10, 250, 60), np.uint8)
    large = upscale(Picture(flat), model).pixels[::2, ::2]
    np.testing.assert_array_equal(large, np.broadcast_to(large[20, 20], large.shape))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (37, 1), (33, 45)])
def test_tiles_joined_are_the_whole(model: Model, channels: int, size: tuple[int, int]) -> None:
    """In float, within 1e-3 of 255 (the order of sums), with transparent pixels, too."""
    pixels = noise(channels, np.float32, size)
    if channels in (2, 4):
        pixels[..., -1] = np.maximum(0, pixels[..., -1] - 0.5)
    picture = Picture(pixels)
    told: list[tuple[int, int]] = []
    tiled = upscale(picture, model, 16, progress=lambda done, total: told.append((done, total)))
    count = -(-size[0] // 16) * -(-size[1] // 16)
    assert told == [(k, count) for k in range(1, count + 1)]
    whole = upscale(picture, model, 64)
    np.testing.assert_allclose(tiled.pixels, whole.pixels, rtol=0, atol=1e-3 / 255)


@pytest.mark.parametrize("size", [(47, 66), (66, 47), (10, 90), (1, 1), (66, 90)])
@pytest.mark.parametrize("channels", [3, 4])
def test_any_size_is_the_networks_output_resized(
    model: Model, size: tuple[int, int], channels: int
) -> None:
    picture = Picture(noise(channels, np.float32, (33, 45)))
    resized = upscale(picture, model, tile=16, size=size).pixels
    whole = upscale(picture, model, tile=16).pixels
    assert resized.shape == (*size, channels)
    # to and from 0..255 in another order
    np.testing.assert_allclose(resized, imresize(whole, size=size), rtol=0, atol=1e-6)


def test_the_ensemble_is_the_mean_of_eight_views(model: Model) -> None:
    """Of a turned picture it gives the turned result; the network alone doesn't."""
    pixels = noise(3, np.float32, (12, 12))
    turned = Picture(np.ascontiguousarray(np.rot90(pixels)))
    for together, atol in ((True, 1e-5), (False, None)):
        upscaler = Upscaler(model, together=together)
        large = upscaler.banded(Picture(pixels)).whole().pixels
        of_turned = upscaler.banded(turned).whole().pixels
        difference = np.abs(np.rot90(large) - of_turned).max()
        assert difference < atol if atol else difference > 1e-3


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("Device(id:0) memory isn't enough"),
        RuntimeError("std::bad_alloc"),
        RuntimeError(
            f"Return value from CPU AOT kernel(x.so)'s function(conv3x3) is {errno.ENOMEM}. Any"
        ),
    ],
)
def test_out_of_memory_halves_the_tile_and_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    model = Nearest(most=44, error=error)
    pixels = noise(3, size=(130, 70))
    upscaler = Upscaler(model, 128)  # type: ignore[arg-type]
    large = upscaler.banded(Picture(pixels)).whole()
    np.testing.assert_array_equal(large.pixels, pixels.repeat(2, axis=0).repeat(2, axis=1))
    assert upscaler.tile < 44
    assert max(max(shape) for shape in model.seen) <= 44
    assert "out of memory: going on with tiles of" in caplog.text


def test_without_memory_for_any_tile_it_is_an_error() -> None:
    with pytest.raises(PictureError, match="not even memory"):
        upscale(Picture(noise(3, size=(60, 60))), Nearest(most=3))


def test_another_error_of_a_device_is_no_reason_to_halve() -> None:
    model = Nearest(most=3, error=RuntimeError("a kernel is missing"))
    with pytest.raises(RuntimeError, match="kernel"):
        upscale(Picture(noise(3)), model)


def test_bands_come_one_by_one(model: Model) -> None:
    """After the first no more than one row of tiles has been worked on."""
    counted = Nearest()
    bands = Upscaler(counted, 16).banded(Picture(noise(3, size=(160, 20)))).bands  # type: ignore[arg-type]
    first = next(iter(bands))
    assert first.shape == (32, 40, 3)
    assert len(counted.seen) == 2
