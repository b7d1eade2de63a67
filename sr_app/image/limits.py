"""What a stranger's file may cost before it is refused."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageFile

if sys.platform != "win32":
    import resource

MAX_PIXELS = 500_000_000
_SPARE = 2**30
_BYTES_A_PIXEL = 40  # of 16-bit RGBA, once as the library holds it and twice on its way to NumPy


@dataclass(frozen=True)
class Limits:
    """How far to go with a file.

    Args:
        max_pixels: of all its pictures together, by its header, before anything is decoded.
        allow_truncated: take what there is of a file that was cut off; the rest stays black.
    """

    max_pixels: int = MAX_PIXELS
    allow_truncated: bool = False


LIMITS = Limits()
"""What is good for everyone."""


@contextmanager
def bounded(pixels: int, limits: Limits) -> Iterator[None]:
    """Decode something of `pixels` pixels here: with a bound on memory where the system has one
    (Linux), so that a small file that unfolds to gigabytes ends in MemoryError; and with our limits
    in place of Pillow's global ones, which are put back."""
    before = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = limits.allow_truncated, None
    try:
        with _bounded_memory(_SPARE + _BYTES_A_PIXEL * pixels):
            yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = before


@contextmanager
def _bounded_memory(more: int) -> Iterator[None]:
    status = Path("/proc/self/statm")
    if sys.platform == "win32" or not status.exists():
        yield
        return
    used = int(status.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [used + more, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
