"""Rarer kinds of files, and what a stranger's file may cost."""

import resource
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sr_app.errors import PictureError
from sr_app.image import decode
from sr_app.image.files import read
from sr_app.image.limits import LIMITS, Limits, bounded
from sr_app.image.opening import opened


def cmyk_profile() -> bytes:
    """A profile (ICC.1:2001) by which all inks are gray, each taking a quarter of the lightness."""

    def fixed(value: float) -> bytes:
        return struct.pack(">i", round(value * 65536))

    corners = []  # of the cube of inks, the last one varying fastest
    for corner in range(16):
        inks = [corner >> shift & 1 for shift in (3, 2, 1, 0)]
        corners += [round((1 - sum(inks) / 4) * 0xFF00), 0x8000, 0x8000]
    table = b"mft2" + bytes(4) + bytes([4, 3, 2, 0])
    table += b"".join(fixed(v) for v in (1, 0, 0, 0, 1, 0, 0, 0, 1)) + struct.pack(">HH", 2, 2)
    table += struct.pack(">8H", *[0, 65535] * 4)
    table += struct.pack(f">{len(corners)}H", *corners) + struct.pack(">6H", *[0, 65535] * 3)
    text = b"desc" + bytes(4) + struct.pack(">I", 5) + b"test\0" + bytes(78)
    white = b"XYZ " + bytes(4) + b"".join(fixed(v) for v in (0.9642, 1, 0.8249))
    tags = {b"desc": text, b"wtpt": white, b"A2B0": table}
    place = 128 + 4 + 12 * len(tags)
    index, data = struct.pack(">I", len(tags)), b""
    for name, tag in tags.items():
        tag += bytes(-len(tag) % 4)
        index += name + struct.pack(">II", place + len(data), len(tag))
        data += tag
    head = struct.pack(">I", place + len(data)) + b"lcms" + struct.pack(">I", 0x02400000)
    head += b"prtrCMYKLab " + struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp"
    head = head.ljust(68, b"\0") + b"".join(fixed(v) for v in (0.9642, 1, 0.8249))
    return head.ljust(128, b"\0") + index + data


@pytest.mark.parametrize("name", ["a.jpg", "a.tif"])
def test_cmyk_is_converted_by_its_profile(tmp_path: Path, name: str) -> None:
    """Cyan of lightness 75 is the gray 185 of sRGB; without a profile it is cyan."""
    image = Image.new("CMYK", (9, 9), (255, 0, 0, 0))
    image.save(tmp_path / name, icc_profile=cmyk_profile())
    picture = read(tmp_path / name)
    np.testing.assert_allclose(picture.pixels, 185, atol=2)  # 8 bits on the way, and JPEG's loss
    assert picture.icc is None  # it would describe inks
    image.save(tmp_path / name)
    np.testing.assert_allclose(read(tmp_path / name).pixels[4, 4], [0, 255, 255], atol=2)


def test_a_profile_of_other_colours_than_the_pixels_is_an_error(tmp_path: Path) -> None:
    from PIL import ImageCms

    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.new("CMYK", (9, 9)).save(tmp_path / "a.jpg", icc_profile=srgb)
    with pytest.raises(PictureError, match="CMYK with a colour profile that is not"):
        read(tmp_path / "a.jpg")


def test_lab_becomes_srgb(tmp_path: Path) -> None:
    """Lightness 54.29, a 80.81, b 69.89 (of D50, as in ICC) is sRGB's red. Of whole numbers a step
    is some 3 levels of sRGB."""
    image = Image.new("LAB", (9, 9), (138, 128 + 81, 128 + 70))
    image.save(tmp_path / "a.tif")
    np.testing.assert_allclose(read(tmp_path / "a.tif").pixels[0, 0], [255, 0, 0], atol=6)


def test_a_heif_of_10_bits_is_read_with_16(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif: pip install '.[heif]'")
    y, x = np.mgrid[:64, :64]
    pixels = np.stack([x * 1000, y * 1000, (x + y) * 500], axis=2).astype(np.uint16)
    made = heif.from_bytes("RGB;16", (64, 64), pixels.tobytes())
    made.save(tmp_path / "a.heic", quality=-1, chroma=444)
    picture = read(tmp_path / "a.heic")
    assert picture.pixels.dtype == np.uint16
    # of 10 bits, after YCbCr's rounding: a few steps of 64
    difference = np.abs(picture.pixels.astype(int) - pixels)
    assert difference.mean() < 128
    assert len(np.unique(picture.pixels[..., 0])) > 60  # 8 bits would hold 64 at most, doubled


def test_an_avif_of_10_bits_is_known_since_pillow_would_cut_it(tmp_path: Path) -> None:
    """By its header alone: nothing here writes one whose pixels would fit to it."""
    Image.new("RGB", (9, 9), "red").save(tmp_path / "a.avif")
    data = bytearray((tmp_path / "a.avif").read_bytes())
    assert read(tmp_path / "a.avif").pixels.shape == (9, 9, 3)
    assert not decode.is_deep_avif(tmp_path / "a.avif")
    data[data.index(b"av1C") + 6] |= 0x40
    (tmp_path / "a.avif").write_bytes(data)
    assert decode.is_deep_avif(tmp_path / "a.avif")


def test_the_picture_for_others_is_no_frame_of_an_animated_png(tmp_path: Path) -> None:
    frames = [Image.new("L", (5, 4), level) for level in (0, 100, 200)]
    frames[0].save(
        tmp_path / "a.png", save_all=True, append_images=frames[1:], default_image=True, duration=30
    )
    with opened(tmp_path / "a.png") as album:
        assert album.header.count == 2
        found = [frame.picture.pixels[0, 0, 0] for frame in album.frames()]
    assert found == [100, 200]


def test_damaged_exif_is_left_out_and_the_picture_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png", exif=b"Exif\0\0XX*\0\x08\0\0\0")
    assert read(tmp_path / "a.png").exif is None
    assert "a.png: its EXIF is damaged and left out" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux only")
def test_what_unfolds_to_gigabytes_ends_in_an_error_and_the_bound_is_lifted() -> None:
    with pytest.raises(MemoryError), bounded(1000, LIMITS):
        np.zeros(2**32, np.uint8)
    np.zeros(2**32, np.uint8)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux only")
def test_after_several_threads_the_settings_are_what_they_were(tmp_path: Path) -> None:
    Image.new("RGB", (99, 99)).save(tmp_path / "a.png")
    before = (Image.MAX_IMAGE_PIXELS, resource.getrlimit(resource.RLIMIT_AS))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(read, [tmp_path / "a.png"] * 200))
    assert all(picture.pixels.shape == (99, 99, 3) for picture in found)
    assert (Image.MAX_IMAGE_PIXELS, resource.getrlimit(resource.RLIMIT_AS)) == before


def test_pages_are_held_to_the_limit_one_by_one(tmp_path: Path) -> None:
    pages = [Image.new("L", (5, 4)), Image.new("L", (50, 40))]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    with opened(tmp_path / "a.tif", Limits(max_pixels=1000)) as album:
        frames = album.frames()
        next(frames)
        with pytest.raises(PictureError, match="50 x 40 pixels, over the limit"):
            next(frames)
