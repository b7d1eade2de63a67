"""Pictures come back from their files as they were, or an error says why not."""

import csv
import io
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageCms, ImageOps, TiffImagePlugin

from sr_app.errors import PictureError
from sr_app.image.files import SUFFIXES, header_size, is_picture_name, read, read_rgb, write
from sr_app.image.limits import Limits
from sr_app.image.picture import Picture
from tests.odd import REFUSED

ALPHA = (".png", ".webp", ".tif", ".tiff")
SIXTEEN = (".png", ".tif", ".tiff")
METADATA = (".png", ".jpg", ".webp", ".tif")
LOSSLESS = [(s, c) for s in ALPHA for c in (1, 2, 3, 4)] + [(".bmp", 1), (".bmp", 3)]
LOSSLESS_16 = [(s, c) for s in SIXTEEN for c in (1, 2, 3, 4) if s == ".png" or c != 2]
MAKER = "Someone's camera"


def random_pixels(channels: int, dtype: Any = np.uint8, size: tuple[int, int] = (13, 9)) -> Any:
    top = np.iinfo(dtype).max
    shape = (*size, channels)
    return np.random.default_rng(channels).integers(0, top, shape, dtype, endpoint=True)


def exif_block(orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = MAKER
    if orientation is not None:
        exif[ExifTags.Base.Orientation] = orientation
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ISOSpeedRatings] = 320
    return exif.tobytes()


def icc_block() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def png(depth: int, color_type: int, rows: list[bytes], key: bytes = b"") -> bytes:
    """A PNG from its rows, written by the specification; key: the tRNS chunk's content."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    samples = {0: 1, 2: 3, 4: 2, 6: 4}[color_type]
    width = len(rows[0]) * 8 // (depth * samples)
    header = struct.pack(">IIBBBBB", width, len(rows), depth, color_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"tRNS", key) if key else b"")
        + chunk(b"IDAT", pixels)
        + chunk(b"IEND", b"")
    )


def tiff(pixels: NDArray[Any], more: dict[int, Any]) -> bytes:
    """An uncompressed TIFF with more tags, or others, than the needed ones."""
    data = pixels.tobytes()
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    height, width, channels = pixels.shape
    tags[TiffImagePlugin.IMAGEWIDTH] = width
    tags[TiffImagePlugin.IMAGELENGTH] = height
    tags[TiffImagePlugin.BITSPERSAMPLE] = (pixels.itemsize * 8,) * channels
    tags[TiffImagePlugin.COMPRESSION] = 1
    tags[TiffImagePlugin.PHOTOMETRIC_INTERPRETATION] = 2 if channels >= 3 else 1
    tags[TiffImagePlugin.SAMPLESPERPIXEL] = channels
    tags[TiffImagePlugin.ROWSPERSTRIP] = height
    tags[TiffImagePlugin.STRIPBYTECOUNTS] = len(data)
    tags[TiffImagePlugin.STRIPOFFSETS] = 0
    for tag, value in more.items():
        tags[tag] = value
    file = io.BytesIO()
    tags.save(file)
    return file.getvalue() + data


# There and back


@pytest.mark.parametrize(("suffix", "channels"), LOSSLESS)
def test_8_bit_pictures_come_back_as_they_were(tmp_path: Path, suffix: str, channels: int) -> None:
    pixels, path = random_pixels(channels), tmp_path / f"a{suffix}"
    write(path, Picture(pixels))
    found = read(path).pixels
    if suffix == ".webp" and channels <= 2:  # WebP has no gray
        assert found.shape[2] == channels + 2
        found = found[..., 2:]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, pixels)
    assert header_size(path) == (13, 9)


@pytest.mark.parametrize("size", [(1, 1), (13, 9), (300, 1000)])
@pytest.mark.parametrize(("suffix", "channels"), LOSSLESS_16)
def test_16_bit_pictures_come_back_as_they_were(
    tmp_path: Path, suffix: str, channels: int, size: tuple[int, int]
) -> None:
    pixels, path = random_pixels(channels, np.uint16, size), tmp_path / f"a{suffix}"
    write(path, Picture(pixels))
    found = read(path).pixels
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, pixels)
    assert header_size(path) == size


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_pillow_sees_the_same_colours_in_our_16_bit_files(
    tmp_path: Path, suffix: str, channels: int
) -> None:
    pixels, path = random_pixels(channels, np.uint16), tmp_path / f"a{suffix}"
    write(path, Picture(pixels))
    with Image.open(path) as image:
        found = np.asarray(image).reshape(pixels.shape)
    # Pillow cuts 16-bit colour down to the upper 8 bits, but not gray
    np.testing.assert_array_equal(found, pixels if channels == 1 else pixels >> 8)


def smooth() -> NDArray[np.uint8]:
    y, x = np.mgrid[0:64, 0:48]
    values: NDArray[Any] = np.stack([2 * x + y, 3 * y, 255 - 4 * x], axis=2)
    return values.astype(np.uint8)


def test_jpeg_is_written_with_quality_95_and_full_colour(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg", Picture(smooth()))
    difference = read(tmp_path / "a.jpg").pixels.astype(int) - smooth()
    # half a step of the finest tables of quality 95 is 1 to 2 levels; halved colour gives over 10
    assert np.abs(difference).max() <= 5
    write(tmp_path / "b.jpeg", Picture(smooth()), quality=95)
    write(tmp_path / "c.jpg", Picture(smooth()), quality=50)
    sizes = [(tmp_path / name).stat().st_size for name in ("a.jpg", "b.jpeg", "c.jpg")]
    assert sizes[0] == sizes[1] > sizes[2]
    write(tmp_path / "gray.jpg", Picture(smooth()[..., :1]))
    assert read(tmp_path / "gray.jpg").pixels.shape == (64, 48, 1)


def test_webp_is_lossy_when_a_quality_is_asked_for(tmp_path: Path) -> None:
    pixels = random_pixels(3, size=(64, 64))
    write(tmp_path / "a.webp", Picture(pixels), quality=60)
    write(tmp_path / "b.webp", Picture(pixels))
    assert np.any(read(tmp_path / "a.webp").pixels != pixels)
    assert (tmp_path / "a.webp").stat().st_size < (tmp_path / "b.webp").stat().st_size / 2


@pytest.mark.parametrize("suffix", ALPHA)
def test_colours_under_transparent_pixels_are_kept(tmp_path: Path, suffix: str) -> None:
    pixels = random_pixels(4)
    pixels[..., 3] = 0
    write(tmp_path / f"a{suffix}", Picture(pixels))
    np.testing.assert_array_equal(read(tmp_path / f"a{suffix}").pixels, pixels)


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [(s, np.uint8) for s in METADATA] + [(s, np.uint16) for s in METADATA if s in SIXTEEN],
)
def test_the_profile_and_exif_are_kept(tmp_path: Path, suffix: str, dtype: Any) -> None:
    path, again = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    icc = icc_block()  # once: it holds the time of its making
    write(path, Picture(random_pixels(3, dtype), icc, exif_block()))
    write(again, read(path))
    found = read(again)
    assert found.icc == icc
    assert found.exif is not None
    exif = Image.Exif()
    exif.load(found.exif)
    assert exif[ExifTags.Base.Make] == MAKER
    assert exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ISOSpeedRatings] == 320
    with Image.open(again) as image:  # others see them too
        assert image.info["icc_profile"] == icc
        assert image.getexif()[ExifTags.Base.Make] == MAKER


@pytest.mark.parametrize("suffix", METADATA)
def test_what_had_no_profile_and_exif_gets_none(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"a{suffix}", Picture(random_pixels(3)))
    found = read(tmp_path / f"a{suffix}")
    assert found.icc is None
    assert found.exif is None


def test_the_content_tells_the_format_and_any_name_will_do(tmp_path: Path) -> None:
    pixels = random_pixels(3)
    write(tmp_path / "a.bmp", Picture(pixels))
    path = tmp_path / "图片 é.PNG"
    (tmp_path / "a.bmp").rename(path)
    np.testing.assert_array_equal(read(str(path)).pixels, pixels)
    write(path, Picture(pixels))
    assert path.read_bytes().startswith(b"\x89PNG")
    np.testing.assert_array_equal(read(path).pixels, pixels)


def test_read_rgb_gives_three_channels_and_names_the_file_it_refuses(tmp_path: Path) -> None:
    gray, rgba = random_pixels(1), random_pixels(4)
    write(tmp_path / "gray.png", Picture(gray))
    np.testing.assert_array_equal(read_rgb(tmp_path / "gray.png"), np.repeat(gray, 3, axis=2))
    write(tmp_path / "rgba.png", Picture(rgba))
    with pytest.raises(PictureError, match=r"rgba\.png: .*transparent"):
        read_rgb(tmp_path / "rgba.png")


# Turned pictures


def turned_file(
    folder: Path, suffix: str, dtype: Any, orientation: int
) -> tuple[Path, NDArray[Any]]:
    """A file whose EXIF asks for a turn, and the pixels as Pillow would turn them."""
    pixels = random_pixels(3)
    image = Image.fromarray(pixels)
    image.getexif()[ExifTags.Base.Orientation] = orientation
    upright: NDArray[Any] = np.asarray(ImageOps.exif_transpose(image))
    if dtype == np.uint16:
        pixels, upright = pixels * np.uint16(257), upright * np.uint16(257)
    path = folder / f"a{suffix}"
    if suffix == ".tif":
        tags: dict[int, Any] = {ExifTags.Base.Orientation: orientation, ExifTags.Base.Make: MAKER}
        path.write_bytes(tiff(pixels, tags))
    else:
        write(path, Picture(pixels, exif=exif_block(orientation)))
    return path, upright


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [
        (".png", np.uint8),
        (".webp", np.uint8),
        (".tif", np.uint8),
        (".png", np.uint16),
        (".tif", np.uint16),
    ],
)
def test_a_turned_picture_is_read_upright_and_only_once(
    tmp_path: Path, suffix: str, dtype: Any, orientation: int
) -> None:
    path, upright = turned_file(tmp_path, suffix, dtype, orientation)
    picture = read(path)
    np.testing.assert_array_equal(picture.pixels, upright)
    assert header_size(path) == upright.shape[:2]
    write(path, picture)
    np.testing.assert_array_equal(read(path).pixels, upright)
    with Image.open(path) as image:
        assert image.getexif().get(ExifTags.Base.Orientation, 1) == 1
        assert image.getexif()[ExifTags.Base.Make] == MAKER


@pytest.mark.parametrize(
    "block",
    [
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x04\0\0\0\x01\0\0\0\x06\0\0\0\0",
    ],
    ids=["little-endian", "big-endian", "big-endian, as a long"],
)
def test_only_the_turn_is_changed_in_the_exif(tmp_path: Path, block: bytes) -> None:
    path = tmp_path / "a.jpg"
    write(path, Picture(random_pixels(3), exif=b"Exif\0\0" + block))
    picture = read(path)
    assert (picture.height, picture.width) == header_size(path) == (9, 13)
    assert picture.exif == b"Exif\0\0" + block.replace(b"\x06", b"\x01")


def test_a_png_that_says_its_turn_after_its_pixels_is_turned(tmp_path: Path) -> None:
    path, upright = turned_file(tmp_path, ".png", np.uint8, 6)
    data = path.read_bytes()
    start = data.index(b"eXIf") - 4
    end = start + 12 + struct.unpack_from(">I", data, start)[0]
    last = data.index(b"IEND") - 4
    path.write_bytes(data[:start] + data[end:last] + data[start:end] + data[last:])
    np.testing.assert_array_equal(read(path).pixels, upright)
    assert header_size(path) == upright.shape[:2]


# Other kinds of pixels


@pytest.mark.parametrize(
    ("depth", "row", "gray"),
    [(1, b"\x40", [0, 255]), (2, b"\x6c", [85, 170, 255, 0]), (4, b"\x3f", [51, 255])],
)
def test_gray_of_few_bits_is_widened_and_its_key_with_it(
    tmp_path: Path, depth: int, row: bytes, gray: list[int]
) -> None:
    path = tmp_path / "a.png"
    width = len(gray)
    path.write_bytes(png(depth, 0, [row]))
    np.testing.assert_array_equal(read(path).pixels[0, :width, 0], gray)
    key = gray[1] * (2**depth - 1) // 255
    path.write_bytes(png(depth, 0, [row], key=struct.pack(">H", key)))
    found = read(path).pixels[0, :width]
    np.testing.assert_array_equal(found[:, 0], gray)
    np.testing.assert_array_equal(found[:, 1], [0 if g == gray[1] else 255 for g in gray])


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("color_type", [0, 2])
def test_a_transparent_colour_becomes_alpha(tmp_path: Path, depth: int, color_type: int) -> None:
    dtype = np.uint8 if depth == 8 else np.uint16
    pixels = random_pixels(1 if color_type == 0 else 3, dtype)
    rows = [row.astype(dtype(0).dtype.newbyteorder(">")).tobytes() for row in pixels]
    key = pixels[2, 3].astype(">u2").tobytes()
    (tmp_path / "a.png").write_bytes(png(depth, color_type, rows, key=key))
    found = read(tmp_path / "a.png")
    np.testing.assert_array_equal(found.color, pixels)
    expected = np.where(np.all(pixels == pixels[2, 3], axis=2), 0, np.iinfo(dtype).max)
    assert found.alpha is not None
    np.testing.assert_array_equal(found.alpha[..., 0], expected)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_palettes_and_black_and_white_are_resolved(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    image = Image.fromarray(random_pixels(3)).quantize(7)
    image.save(path)
    np.testing.assert_array_equal(read(path).pixels, np.asarray(image.convert("RGB")))
    image = Image.fromarray(random_pixels(1)[..., 0]).convert("1")
    image.save(path)
    np.testing.assert_array_equal(read(path).pixels[..., 0], np.asarray(image) * 255)


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_16_bit_tiffs_of_either_byte_order_are_read(tmp_path: Path, order: str) -> None:
    pixels = random_pixels(1, np.uint16)
    prefix = "II" if order == "<u2" else "MM"
    Image.fromarray(pixels[..., 0]).save(tmp_path / "a.tif")
    if prefix == "MM":
        image = Image.frombytes("I;16B", pixels.shape[1::-1], pixels.astype(">u2").tobytes())
        image.save(tmp_path / "a.tif")
    assert (tmp_path / "a.tif").read_bytes()[:2] == prefix.encode()
    np.testing.assert_array_equal(read(tmp_path / "a.tif").pixels, pixels)


# What is refused, and how


def refused(path: Path, message: str) -> None:
    """Reading must fail with this message, which names the file."""
    with pytest.raises(PictureError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def save(image: Image.Image, **options: Any) -> Callable[[Path], None]:
    return lambda path: image.save(path, **options)


GRAY_16 = random_pixels(1, np.uint16)
FRAMES = [Image.new("RGB", (9, 9), color) for color in ("red", "blue")]


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.tif", save(Image.new("I", (9, 9))), "signed"),
        ("a.tif", save(FRAMES[0], save_all=True, append_images=FRAMES[1:]), "2 pages"),
        ("a.png", save(FRAMES[0], save_all=True, append_images=FRAMES[1:]), "2 frames"),
        ("a.webp", save(FRAMES[0], save_all=True, append_images=FRAMES[1:]), "2 frames"),
        ("a.gif", save(FRAMES[0], save_all=True, append_images=FRAMES[1:]), "2 frames"),
        (
            "a.tif",
            lambda path: path.write_bytes(
                tiff(GRAY_16, {TiffImagePlugin.PHOTOMETRIC_INTERPRETATION: 0})
            ),
            "photometric",
        ),
        (
            "a.tif",
            lambda path: path.write_bytes(
                tiff(random_pixels(4, np.uint16), {TiffImagePlugin.EXTRASAMPLES: 1})
            ),
            "premultiplied",
        ),
        (
            "a.tif",
            lambda path: path.write_bytes(
                tiff(random_pixels(3, np.uint16), {TiffImagePlugin.PLANAR_CONFIGURATION: 2})
            ),
            "planes",
        ),
        ("a.png", lambda path: path.write_bytes(b""), "an empty file"),
        ("a.png", lambda path: path.write_text("hello"), "no picture; PNG, JPEG"),
        ("a.png", lambda path: path.write_bytes(b"\0\0\0\x1cftypisom\0\0"), "is a video"),
        ("a.png", lambda path: path.mkdir(), "is a folder"),
        ("a.png", lambda path: None, "No such file"),
    ],
)
def test_what_cannot_be_read_right_is_refused(
    tmp_path: Path, name: str, make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / name)
    refused(tmp_path / name, message)
    with pytest.raises(PictureError, match=message):
        header_size(tmp_path / name)


def test_an_impossible_name_is_refused() -> None:
    refused(Path("a\0b.png"), "can't be opened")
    refused(Path("a" * 300 + ".png"), "can't be opened: File name too long")


@pytest.mark.parametrize("name", ["a\0b.png", "a" * 300 + ".png"])
def test_an_impossible_name_can_not_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(PictureError, match=r"can't be written: .*check the name"):
        write(tmp_path / name, Picture(random_pixels(3)))
    assert not list(tmp_path.iterdir())


def test_a_pipe_or_a_device_is_refused_and_neither_waited_for_nor_replaced(tmp_path: Path) -> None:
    fifo = tmp_path / "a.png"
    os.mkfifo(fifo)
    for path in (fifo, Path(os.devnull)):
        refused(path, "is a pipe or a device")
        with pytest.raises(PictureError, match="is a pipe or a device"):
            header_size(path)
    with pytest.raises(PictureError, match="is not a regular file"):
        write(fifo, Picture(random_pixels(3)))
    assert fifo.is_fifo()


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [(s, np.uint8) for s in SUFFIXES] + [(s, np.uint16) for s in SIXTEEN],
)
def test_a_file_cut_short_is_refused(tmp_path: Path, suffix: str, dtype: Any) -> None:
    path = tmp_path / f"a{suffix}"
    write(path, Picture(random_pixels(3, dtype, (60, 50))))
    data = path.read_bytes()
    for length in (len(data) // 2, len(data) * 9 // 10):
        path.write_bytes(data[:length])
        refused(path, "damaged or incomplete")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    suffix=st.sampled_from([".png", ".jpg", ".webp", ".bmp", ".tif"]),
    sixteen=st.booleans(),
    places=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=6),
)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow warns of damaged tags
def test_a_damaged_file_gives_a_picture_or_an_error_and_nothing_else(
    tmp_path: Path, suffix: str, sixteen: bool, places: list[tuple[float, int]]
) -> None:
    dtype = np.uint16 if sixteen and suffix in SIXTEEN else np.uint8
    path = tmp_path / f"a{suffix}"
    exif = None if suffix == ".bmp" else exif_block(6)
    write(path, Picture(random_pixels(3, dtype), exif=exif))
    data = bytearray(path.read_bytes())
    for place, change in places:
        data[int(place * (len(data) - 1))] ^= change
    path.write_bytes(data)
    for look in (header_size, lambda path: read(path, Limits(10_000))):
        try:
            look(path)
        except PictureError as error:
            assert str(path) in str(error)


def test_too_many_pixels_are_refused_before_decoding(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    write(path, Picture(random_pixels(3)))
    assert read(path, Limits(13 * 9)).height == 13
    with pytest.raises(PictureError, match="9 x 13 pixels, over the limit of 116"):
        read(path, Limits(13 * 9 - 1))
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 40_000, 40_000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)
    refused(path, "40000 x 40000")
    with pytest.raises(PictureError, match="40000 x 40000"):
        header_size(path)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tif", ".webp", ".gif"])
def test_the_global_limit_of_pillow_neither_matters_nor_changes(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / f"a{suffix}", Picture(random_pixels(3)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    assert read(tmp_path / f"a{suffix}").height == 13
    assert Image.MAX_IMAGE_PIXELS == 1


@pytest.mark.parametrize(
    ("name", "picture", "quality", "message"),
    [
        ("a.jpg", Picture(random_pixels(4)), None, "alpha"),
        ("a.bmp", Picture(random_pixels(2)), None, "alpha"),
        ("a.jpg", Picture(random_pixels(3, np.uint16)), None, "16 bits"),
        ("a.webp", Picture(random_pixels(1, np.uint16)), None, "16 bits"),
        ("a.bmp", Picture(random_pixels(3, np.uint16)), None, "16 bits"),
        ("a.tif", Picture(random_pixels(2, np.uint16)), None, "gray with alpha"),
        ("a.bmp", Picture(random_pixels(3), icc=b"profile"), None, "profile"),
        ("a.bmp", Picture(random_pixels(3), exif=exif_block()), None, "EXIF"),
        ("a.jpg", Picture(random_pixels(1, size=(65_536, 1))), None, "65535"),
        ("a.webp", Picture(random_pixels(1, size=(1, 16_384))), None, "16383"),
        ("a.png", Picture(random_pixels(3)), 90, "quality"),
        ("a.jpg", Picture(random_pixels(3)), 0, "from 1 to 100"),
        ("a.jpg", Picture(random_pixels(3)), 101, "from 1 to 100"),
        ("a.xyz", Picture(random_pixels(3)), None, r"'\.xyz' is none of \.png, \.jpg"),
        ("a.gif", Picture(random_pixels(3), exif=exif_block()), None, "EXIF"),
        ("a.gif", Picture(random_pixels(4)), None, "half transparent; write .png or .webp"),
        ("a.png", Picture(random_pixels(3).astype(np.float32)), None, "can't hold float.*tif"),
        ("a", Picture(random_pixels(3)), None, "ending ''"),
        ("no/a.png", Picture(random_pixels(3)), None, "no folder .*; make it first"),
        (".", Picture(random_pixels(3)), None, "ending"),
        ("folder.png", Picture(random_pixels(3)), None, "there is a folder"),
        ("a.jpg", Picture(random_pixels(3), exif=b"Exif\0\0" + bytes(70_000)), None, "as JPEG"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, picture: Picture, quality: int | None, message: str
) -> None:
    (tmp_path / "folder.png").mkdir()
    path = tmp_path / name
    with pytest.raises(PictureError, match=message) as caught:
        write(path, picture, quality)
    assert str(path) in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.png"]


@pytest.mark.parametrize("step", ["replace", "open"])
def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    write(path, Picture(random_pixels(3)))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(PictureError, match="No space left"):
        patch.setattr(Path, step, fail)
        write(path, Picture(random_pixels(1)))
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(read(path).pixels, random_pixels(3))


# Names, and the pictures that break programs


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.png", True),
        ("folder/图.JPEG", True),
        ("a.b.TiF", True),
        ("._a.png", False),
        (".png", False),
        ("png", False),
        ("a.png.txt", False),
        ("Thumbs.db", False),
    ],
)
def test_a_picture_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_picture_name(name) is expected
    assert is_picture_name(Path(name)) is expected


ODD_AND_REFUSED = {  # what of the folder `odd` is refused, and how
    "animated.gif": "10 frames",
    "animated.webp": "9 frames",
    **REFUSED,
}
HEIF = ("heic_rgb8.heif", "truncated.heic")


def test_every_odd_picture_is_read_as_pillow_sees_it_or_refused(sr_data: Path) -> None:
    with (sr_data / "odd" / "INDEX.tsv").open(encoding="utf-8") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    assert len(rows) >= 45
    for row in rows:
        path = sr_data / "odd" / row["file"]
        if row["file"] in ODD_AND_REFUSED:
            refused(path, ODD_AND_REFUSED[row["file"]])
            continue
        if row["file"] in HEIF:
            continue
        picture = read(path)
        with Image.open(path) as image:
            expected = np.asarray(ImageOps.exif_transpose(as_rgba(image)))
        assert header_size(path) == expected.shape[:2], path
        assert ("16" in row["file"]) == (picture.pixels.dtype == np.uint16), path
        assert (picture.icc is not None) == ("icc" in row["Pillow13_result"].split()), path
        np.testing.assert_array_equal(rgba8(picture), expected, err_msg=str(path))


def test_the_odd_heif_pictures_are_read_or_refused(sr_data: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs pillow-heif: pip install '.[heif]'")
    path = sr_data / "odd" / "heic_rgb8.heif"
    np.testing.assert_array_equal(read(path).pixels, np.asarray(heif.open_heif(path)))
    refused(sr_data / "odd" / "truncated.heic", "2 pages")


def test_without_its_library_a_heif_picture_is_refused_by_the_name_of_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "a.png").write_bytes(b"\0\0\0\x18ftypheic" + bytes(99))
    refused(tmp_path / "a.png", r"is a HEIF picture.*sr_app\[heif\]")


def as_rgba(image: Image.Image) -> Image.Image:
    """An image in Pillow's 8-bit RGBA; 16 bits cut to the upper 8, as Pillow does for colour."""
    if image.mode == "I;16":
        gray = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return gray.convert("RGBA")
    return image.convert("RGBA")


def rgba8(picture: Picture) -> NDArray[np.uint8]:
    """Our pixels in the same form."""
    pixels = picture.pixels if picture.pixels.dtype == np.uint8 else picture.pixels >> 8
    order = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[pixels.shape[2]]
    pixels = pixels[..., order].astype(np.uint8)
    opaque = np.full((*pixels.shape[:2], 4 - pixels.shape[2]), 255, np.uint8)
    return np.concatenate([pixels, opaque], axis=2)
