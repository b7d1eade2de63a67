"""What a file carries beside its pixels: EXIF, with the turn that it asks for, and resolution."""

import logging
import struct
from pathlib import Path

from PIL import ExifTags, Image, ImageFile, TiffImagePlugin, TiffTags

_log = logging.getLogger(__name__)
EXIF_START = b"Exif\0\0"
EXIF_FOLDERS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)
EXIF_IN_TIFF = (  # the tags of a TIFF that tell about the picture, not about the file
    ExifTags.Base.ImageDescription,
    ExifTags.Base.Make,
    ExifTags.Base.Model,
    ExifTags.Base.Software,
    ExifTags.Base.DateTime,
    ExifTags.Base.Artist,
    ExifTags.Base.HostComputer,
    ExifTags.Base.Copyright,
    *EXIF_FOLDERS,
)


def orientation(path: Path, image: ImageFile.ImageFile) -> int:
    """One of EXIF's eight, 1 being upright. Damaged EXIF is no reason to refuse the picture."""
    try:
        exif = Image.Image.getexif(image)  # PngImageFile's own decodes the whole picture
        return int(exif.get(ExifTags.Base.Orientation, 1))
    except Exception as error:  # Pillow raises nearly anything
        _log.warning("%s: its EXIF is damaged and left out (%s)", path, error)
        return 1


def dpi(image: ImageFile.ImageFile) -> tuple[float, float] | None:
    """Dots an inch across and down, if the file says so."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        tags = image.tag_v2
        unit = tags.get(TiffImagePlugin.RESOLUTION_UNIT, 2)
        found = [
            tags.get(tag) for tag in (TiffImagePlugin.X_RESOLUTION, TiffImagePlugin.Y_RESOLUTION)
        ]
        if None in found or unit not in (2, 3):
            return None
        x, y = (float(value) * (2.54 if unit == 3 else 1) for value in found if value is not None)
    else:
        x, y = image.info.get("dpi") or (0, 0)
    return (float(x), float(y)) if 0 < x < 1e6 and 0 < y < 1e6 else None


def exif_block(image: ImageFile.ImageFile) -> bytes | None:
    """The EXIF block of a decoded image, saying that the picture is upright."""
    block = image.info.get("exif")
    kept = Image.Exif()
    try:
        if block:
            kept.load(block)
            return _upright(EXIF_START + block.removeprefix(EXIF_START)) if kept else None
        tags = image.getexif()
        for tag in EXIF_IN_TIFF:
            if tag in tags:
                kept[tag] = tags.get_ifd(tag) if tag in EXIF_FOLDERS else tags[tag]
        return kept.tobytes() if kept else None
    except Exception:  # damaged: Pillow raises nearly anything, and others could not read it either
        return None


def _upright(exif: bytes) -> bytes:
    """Set the Orientation of the first folder to 1 and leave every other byte alone."""
    data = bytearray(exif)
    tiff = len(EXIF_START)
    order = "<" if data[tiff : tiff + 2] == b"II" else ">"
    try:
        folder = tiff + struct.unpack_from(order + "I", data, tiff + 4)[0]
        count = struct.unpack_from(order + "H", data, folder)[0]
        for entry in range(folder + 2, folder + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", data, entry)
            if tag == ExifTags.Base.Orientation:
                struct.pack_into(
                    order + ("I" if kind == TiffTags.LONG else "H"), data, entry + 8, 1
                )
    except struct.error:  # damaged: there is nothing that a reader could take for a turn
        pass
    return bytes(data)
