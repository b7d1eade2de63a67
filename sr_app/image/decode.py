"""From an opened file to pixels: what Pillow decodes right, and what OpenCV must.

Pillow cuts 16-bit colour to 8 bits without a word and has no float colour; OpenCV has both.
"""

import io
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageFile, TiffImagePlugin

from sr_app.errors import PictureError
from sr_app.image.notes import dpi, exif_block, orientation
from sr_app.image.picture import Frame, Header, Picture

_BAND = 256  # rows that are copied from Pillow at a time
_MODES = {  # Pillow's modes that are read with 8 bits, and what becomes of them
    "1": "L",
    "L": "L",
    "LA": "LA",
    "La": "LA",
    "P": "RGB",
    "PA": "RGBA",
    "RGB": "RGB",
    "RGBX": "RGB",
    "RGBA": "RGBA",
    "RGBa": "RGBA",
    "YCbCr": "RGB",
    "CMYK": "RGB",
    "LAB": "RGB",
}


def header(path: Path, image: ImageFile.ImageFile) -> Header:
    """What an opened file says of itself; PictureError for a kind that would come out wrong."""
    height, width = _upright_size(path, image)
    count: int = getattr(image, "n_frames", 1)
    animated = count > 1 and image.format not in ("TIFF", "HEIF")
    if animated and getattr(image, "default_image", False):
        count -= 1  # an APNG's picture for programs that show no animation
    bits, channels = _depth(path, image)
    if animated and bits > 8:
        raise PictureError(f"{path} is an animation of {bits} bits; save it with 8")
    annotated = bool(image.info.get("icc_profile") or image.info.get("exif"))
    dtype = {8: np.uint8, 16: np.uint16, 32: np.float32}[bits]
    return Header(
        height,
        width,
        channels,
        np.dtype(dtype),
        count,
        animated,
        _plays(image),
        annotated,
        hard_edged=image.format == "GIF",
    )


def turn_to(image: ImageFile.ImageFile, header: Header, index: int) -> None:
    """Go to one of the pictures of an opened file."""
    hidden = int(header.animated and getattr(image, "default_image", False))
    if header.count + hidden > 1:
        image.seek(index + hidden)


def frame(path: Path, image: ImageFile.ImageFile, header: Header, index: int) -> Frame:
    """Decode the picture of an opened file that it was turned to, with what it carries."""
    bits, channels = _depth(path, image)
    if bits < 32 or channels == 1:  # Pillow has no float colours
        image.load()  # also of 16 bits: OpenCV takes a cut-off file for a black rest
    profile = image.info.get("icc_profile")
    if bits > 8:
        image.im = Image.new(image.mode, (1, 1)).im  # frees the memory of what isn't used
        pixels = _decode_deep(path, image, index)
    else:
        pixels = _decode_8(path, image, channels if not header.animated else header.channels)
        if image.mode in ("CMYK", "LAB"):
            profile = None  # what it described is now sRGB
    if image.format != "TIFF":  # both libraries have turned a TIFF already
        pixels = _turned(pixels, orientation(path, image))
    picture = Picture(np.ascontiguousarray(pixels), profile, exif_block(image), dpi(image))
    return Frame(picture, float(image.info.get("duration") or 0) if header.animated else 0.0)


def _upright_size(path: Path, image: ImageFile.ImageFile) -> tuple[int, int]:
    width, height = image.size
    if image.format == "TIFF":  # Pillow gives a TIFF's size upright
        return height, width
    if image.format == "PNG" and _has_late_texts(path):
        image.load()
    return (width, height) if orientation(path, image) in (5, 6, 7, 8) else (height, width)


def _plays(image: ImageFile.ImageFile) -> int:
    """How often an animation is shown, 0 for ever; GIF counts repetitions and may say none."""
    loop = image.info.get("loop")
    if image.format != "GIF":
        return int(loop or 0)
    return 1 if loop is None else int(loop) and int(loop) + 1


# Depth and channels


def _depth(path: Path, image: ImageFile.ImageFile) -> tuple[int, int]:
    """Bits a sample (8, 16, or 32 for float) and channels, as the pixels will be read."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        found = tiff_depth(image.tag_v2)
        if isinstance(found, str):
            raise _unreadable(path, found)
        if found[0] > 8:
            return found
    if image.format == "PNG":
        depth, color_type = _png_kind(path)
        if depth == 16:
            colors = 1 if color_type in (0, 4) else 3
            has_alpha = color_type in (4, 6) or (colors == 1 and "transparency" in image.info)
            if color_type == 2 and "transparency" in image.info:
                has_alpha = True
            return 16, colors + has_alpha
    if image.format == "HEIF" and image.info.get("bit_depth", 8) > 8:
        return 16, len(image.getbands())
    if image.format == "AVIF" and is_deep_avif(path):
        raise _unreadable(path, "more than 8 bits of an AVIF")
    if image.mode not in _MODES:
        raise _unreadable(path, image.mode)
    return 8, Image.getmodebands(_mode(image))


def _unreadable(path: Path, kind: str) -> PictureError:
    return PictureError(
        f"{path} has pixels of kind {kind}, which can't be read right; "
        "save it as gray or RGB with 8 or 16 bits"
    )


def _mode(image: ImageFile.ImageFile) -> str:
    """Pillow's mode that an 8-bit image is read in."""
    if image.format == "GIF" and getattr(image, "n_frames", 1) > 1:
        return "RGBA"  # later frames may be transparent
    mode = _MODES[image.mode]
    if image.info.get("transparency") is None:
        return mode
    return {"L": "LA", "RGB": "RGBA"}.get(mode, mode)


def tiff_depth(tags: TiffImagePlugin.ImageFileDirectory_v2) -> tuple[int, int] | str:
    """Bits (16 or 32, of float) and channels of a TIFF that OpenCV must decode; (8, 0) for others;
    or what one of the libraries would overlook."""
    bits = set(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,)))
    formats = set(tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,)))
    samples = tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1)
    photometric = tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION)
    if formats == {1} and max(bits) <= 8:
        return 8, 0
    if (formats, bits) not in (({1}, {16}), ({3}, {32})):
        kind = {1: "unsigned", 2: "signed", 3: "float"}.get(max(formats), "unknown")
        return f"{sorted(bits)} bits, {kind}, with photometric interpretation {photometric}"
    depth = 16 if bits == {16} else 32
    if photometric not in (1, 2):
        return f"{depth} bits with photometric interpretation {photometric}"
    if tags.get(TiffImagePlugin.PLANAR_CONFIGURATION, 1) != 1:
        return f"{depth} bits in separate planes"
    if set(tags.get(TiffImagePlugin.EXTRASAMPLES, (2,))) != {2}:
        return f"{depth} bits with premultiplied alpha or unknown channels"
    if samples != (3 if photometric == 2 else 1) + (TiffImagePlugin.EXTRASAMPLES in tags):
        return f"{depth} bits in {samples} channels"
    if samples == 2:
        return f"{depth} bits, gray with alpha, in a TIFF"
    return depth, samples


def _png_kind(path: Path) -> tuple[int, int]:
    """Bit depth and colour type, 4 being gray and alpha (PNG specification, 11.2.1)."""
    with path.open("rb") as file:
        depth, color_type = file.read(26)[24:]
    return depth, color_type


def is_deep_avif(path: Path) -> bool:
    """Whether an AVIF holds 10 or 12 bits, which Pillow cuts to 8 (AV1-ISOBMFF, 2.3)."""
    with path.open("rb") as file:
        head = file.read(65_536)
    place = head.find(b"av1C")
    return 0 <= place < len(head) - 7 and bool(head[place + 6] & 0x40)


def _has_late_texts(path: Path) -> bool:
    """Whether a PNG has chunks after its pixels that may turn it (EXIF, XMP)."""
    with path.open("rb", buffering=0) as file:
        file.seek(8)
        seen_pixels = False
        while len(head := file.read(8)) == 8:
            length, name = struct.unpack(">I4s", head)
            seen_pixels |= name == b"IDAT"
            if seen_pixels and name in (b"eXIf", b"iTXt", b"zTXt", b"tEXt"):
                return True
            file.seek(length + 4, os.SEEK_CUR)
    return False


# Pixels


def _decode_8(path: Path, image: ImageFile.ImageFile, channels: int) -> NDArray[Any]:
    key: Any = image.info.get("transparency")
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    converted: Image.Image = image
    if image.mode in ("CMYK", "LAB"):
        converted = _to_srgb(path, image)
    elif mode == "LA" and image.mode in ("1", "L") and image.format == "PNG":
        if image.mode == "L":  # Pillow widens 2 and 4 bits to 8 in the pixels, not in the key
            key = key * 255 // (2 ** _png_kind(path)[0] - 1)
        return _with_key(_array(image.convert("L")), key)
    elif image.mode != mode:
        converted = image.convert(mode)
    return _array(converted)


def _array(image: Image.Image) -> NDArray[np.uint8]:
    """Pillow's pixels as an array; in bands, since Pillow makes two more copies on the way."""
    width, height = image.size
    pixels = np.empty((height, width, len(image.getbands())), np.uint8)
    for top in range(0, height, _BAND):
        band = image.crop((0, top, width, min(top + _BAND, height)))
        pixels[top : top + _BAND] = np.asarray(band).reshape(-1, width, pixels.shape[2])
    return pixels


def _to_srgb(path: Path, image: ImageFile.ImageFile) -> Image.Image:
    """CMYK and LAB in sRGB: by the profile; without one, CMYK by the standard rule."""
    profile: Any = image.info.get("icc_profile")
    source: Any
    if image.mode == "LAB":
        source = ImageCms.createProfile("LAB")
    elif profile:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if source.profile.xcolor_space.strip() != "CMYK":
            raise PictureError(
                f"{path} is CMYK with a colour profile that is not; remove the profile"
            )
    else:
        return image.convert("RGB")
    converted = ImageCms.profileToProfile(
        image,
        source,
        ImageCms.createProfile("sRGB"),
        ImageCms.Intent.RELATIVE_COLORIMETRIC,
        "RGB",
        flags=ImageCms.Flags.BLACKPOINTCOMPENSATION,
    )
    assert converted is not None
    return converted


def _decode_deep(path: Path, image: ImageFile.ImageFile, index: int) -> NDArray[Any]:
    """16 bits a sample, and float."""
    if image.format == "HEIF":
        return _decode_deep_heif(path, index)
    import cv2  # it takes a while to load, and few pictures need it

    data = np.memmap(path, np.uint8, "r")
    cv2.setLogLevel(0)  # it is told as an error
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        _require_whole(path, image.tag_v2, len(data))
        pages = cv2.imdecodemulti(data, cv2.IMREAD_UNCHANGED, range=(index, index + 1))[1]
        pixels: NDArray[Any] | None = pages[0] if len(pages) == 1 else None
    else:
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    expected = np.float32 if _depth(path, image)[0] == 32 else np.uint16
    if pixels is None or pixels.dtype != expected or pixels.shape[:2] != image.size[::-1]:
        raise PictureError(f"{path}: OpenCV can't read this {image.format}; save it anew")
    if pixels.dtype == np.float32 and not np.isfinite(pixels).all():
        raise PictureError(f"{path} holds infinity or nan; set these pixels to a number")
    if pixels.ndim == 2:
        pixels = pixels[..., None]
        key = image.info.get("transparency")
        return pixels if key is None else _with_key(pixels, key)
    if image.format == "PNG" and _png_kind(path)[1] == 4:  # OpenCV repeats the gray
        return pixels[..., 2:]
    for top in range(0, len(pixels), _BAND):  # in place: a second copy may be gigabytes
        band = pixels[top : top + _BAND]
        band[..., :3] = band[..., 2::-1].copy()
    return pixels


def _require_whole(path: Path, tags: TiffImagePlugin.ImageFileDirectory_v2, length: int) -> None:
    """PictureError if a TIFF's pixels lie beyond the file's end: OpenCV would show them black."""
    strips = (TiffImagePlugin.STRIPOFFSETS, TiffImagePlugin.STRIPBYTECOUNTS)
    tiles = (TiffImagePlugin.TILEOFFSETS, TiffImagePlugin.TILEBYTECOUNTS)
    for offsets, counts in (strips, tiles):
        ends = [sum(each) for each in zip(tags.get(offsets, ()), tags.get(counts, ()), strict=True)]
        if ends and max(ends) > length and not ImageFile.LOAD_TRUNCATED_IMAGES:
            raise EOFError(f"pixels up to byte {max(ends)} of {length}")


def _decode_deep_heif(path: Path, index: int) -> NDArray[Any]:
    from pillow_heif import open_heif

    with path.open("rb") as file:
        images = open_heif(file, convert_hdr_to_8bit=False)
        pixels: NDArray[Any] = np.asarray(images[index])
    if pixels.dtype != np.uint16:
        raise PictureError(f"{path}: this HEIF can't be read with 16 bits; save it anew")
    return pixels.reshape(*pixels.shape[:2], -1)


def _with_key(gray: NDArray[Any], key: int) -> NDArray[Any]:
    """Gray and alpha from gray in which the value `key` means transparent (PNG's tRNS)."""
    alpha = np.where(gray == key, 0, np.iinfo(gray.dtype).max).astype(gray.dtype)
    return np.concatenate([gray, alpha], axis=2)


def _turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn pixels (h, w, c) upright from one of EXIF's eight orientations (EXIF 2.32, 4.6.4)."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
