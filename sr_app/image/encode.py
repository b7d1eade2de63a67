"""Pictures as files: PNG, JPEG, WebP, BMP, GIF and TIFF, losing nothing unasked.

PNG and TIFF are written band by band; for the others Pillow holds the pictures whole.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from sr_app.image.failing import failing_as
from sr_app.image.formats import GIF, JPEG, PNG, TIFF, Format
from sr_app.image.picture import Banded, Header
from sr_app.image.png import write_png
from sr_app.image.tiff import write_tiff

_KEY = 255  # the palette's place for transparent pixels of a GIF


def encode(
    file: IO[bytes],
    path: Path,
    format: Format,
    header: Header,
    pictures: Iterable[Banded],
    quality: int | None,
) -> None:
    """Write pictures to an open file; `format` is what `require_fit` gave for what the header says.

    path: what to call the file in errors. Raises OSError, and PictureError for what Pillow refuses.
    """
    if format in (PNG, TIFF):
        (write_png if format is PNG else write_tiff)(file, header, pictures)
        return
    images: list[Image.Image] = []
    durations: list[int] = []
    for picture in pictures:
        if not images:
            options = _options(format, picture, quality)
        images.append(_MAKERS.get(format, _image)(picture))
        durations.append(round(picture.duration))
    if header.count > 1:
        options |= _animation(format, header, images[1:], durations)
    with failing_as(f"{path} can't be written as {format.name}"):
        images[0].save(file, format.name, **options)


def _animation(
    format: Format, header: Header, rest: list[Image.Image], durations: list[int]
) -> dict[str, Any]:
    options: dict[str, Any] = {"save_all": True, "append_images": rest, "duration": durations}
    if format is GIF:  # it counts repetitions, and is played once if it doesn't
        options |= {"disposal": 2, "optimize": False}
        return options if header.plays == 1 else options | {"loop": max(0, header.plays - 1)}
    return options | {"loop": header.plays}


def _options(format: Format, picture: Banded, quality: int | None) -> dict[str, Any]:
    notes = picture.notes
    options: dict[str, Any] = {
        "JPEG": {"quality": quality or 95, "subsampling": 0},
        # exact keeps the colours under transparent pixels; quality is the effort if lossless
        "WEBP": {"lossless": quality is None, "quality": quality or 80, "exact": True},
        "BMP": {},
        "GIF": {},
    }[format.name]
    if notes.icc:
        options["icc_profile"] = notes.icc
    if notes.exif:
        options["exif"] = notes.exif
    if notes.dpi and format.name in ("JPEG", "BMP"):
        options["dpi"] = notes.dpi
    return options


def _image(picture: Banded) -> Image.Image:
    pixels = picture.whole().pixels
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def _jpeg_image(picture: Banded) -> Image.Image:
    """RGB laid out as Pillow itself does, with a fourth byte to each pixel, so that a large picture
    isn't copied."""
    height, width, channels = picture.shape
    if channels == 1:
        return _image(picture)
    wide = np.empty((height, width, 4), np.uint8)
    top = 0
    for band in picture.bands:
        wide[top : top + len(band), :, :3] = band
        wide[top : top + len(band), :, 3] = 255
        top += len(band)
    return Image.frombuffer("RGBX", (width, height), wide, "raw", "RGBX", 0, 1)


def _gif_image(picture: Banded) -> Image.Image:
    """A palette of the picture's own; what is less than half opaque is transparent."""
    pixels = picture.whole().pixels
    channels = pixels.shape[2]
    has_alpha = channels in (2, 4)
    colors = pixels[..., : channels - has_alpha]
    image = Image.fromarray(np.ascontiguousarray(np.broadcast_to(colors, (*pixels.shape[:2], 3))))
    quantized = image.quantize(_KEY)
    if has_alpha and int(pixels[..., -1].min()) < 128:
        quantized.paste(_KEY, mask=Image.fromarray((pixels[..., -1] < 128).astype(np.uint8) * 255))
        quantized.info["transparency"] = _KEY
    return quantized


_MAKERS = {JPEG: _jpeg_image, GIF: _gif_image}
