"""The TIFF writer: pages, float, large files, as others read them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import ExifTags, Image

from sr_app.errors import PictureError
from sr_app.image import tiff
from sr_app.image.files import read, write, write_all
from sr_app.image.opening import opened
from sr_app.image.picture import Banded, Header, Notes, Picture


def random_pixels(channels: int, dtype: Any, size: tuple[int, int] = (13, 9)) -> NDArray[Any]:
    noise = np.random.default_rng(channels).uniform(0, 1, (*size, channels))
    if dtype == np.float32:
        return noise.astype(np.float32) * 3 - 1  # float may be beyond black and white
    return (noise * np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_float_pictures_come_back_as_they_were(tmp_path: Path, channels: int) -> None:
    pixels = random_pixels(channels, np.float32)
    write(tmp_path / "a.tif", Picture(pixels))
    found = read(tmp_path / "a.tif").pixels
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("big", [False, True])
def test_pages_of_any_size_come_back_and_tifffile_sees_the_same(
    tmp_path: Path, dtype: Any, big: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if big:
        monkeypatch.setattr(tiff, "_CLASSIC", 1000)
    monkeypatch.setattr(tiff, "_STRIP", 500)  # so that there are several
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "Fernão's camera"
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ISOSpeedRatings] = 320
    pages = [random_pixels(c, dtype, size) for c, size in ((3, (40, 30)), (1, (7, 5)), (4, (1, 1)))]
    header = Header(40, 30, 3, np.dtype(dtype), count=3)
    notes = Notes(b"profile", exif.tobytes(), (300.0, 72.5))
    path = tmp_path / "a.tif"
    write_all(path, header, (Banded(p.shape, p.dtype, [p[:3], p[3:]], notes) for p in pages))
    assert path.read_bytes()[2] == (43 if big else 42)
    with opened(path) as album:
        assert album.header.count == 3
        found = [frame.picture for frame in album.frames()]
    for page, picture in zip(pages, found, strict=True):
        np.testing.assert_array_equal(picture.pixels, page)
        assert (picture.icc, picture.dpi) == (b"profile", (300.0, 72.5))
        assert picture.exif is not None
        kept = Image.Exif()
        kept.load(picture.exif)
        assert kept.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.ISOSpeedRatings] == 320
    with tifffile.TiffFile(path) as file:
        assert file.is_bigtiff == big
        for page, theirs in zip(pages, file.pages, strict=True):
            seen = theirs.asarray().reshape(page.shape)
            np.testing.assert_array_equal(seen, page)


def test_infinity_is_refused(tmp_path: Path) -> None:
    pixels = random_pixels(3, np.float32)
    pixels[3, 4] = np.inf
    write(tmp_path / "a.tif", Picture(pixels))
    with pytest.raises(PictureError, match="infinity"):
        read(tmp_path / "a.tif")


def test_pixels_beyond_the_end_of_a_float_file_are_refused(tmp_path: Path) -> None:
    """OpenCV would show them black."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.ones((50, 40, 3), np.float32), photometric="rgb", metadata=None)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PictureError, match="damaged"):
        read(path)
