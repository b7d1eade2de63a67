"""What a stranger's file may cost before it is refused."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageFile

if sys.platform != "win32":
    import resource

MAX_PIXELS = 500_000_000
_STATUS = Path("/proc/self/statm")
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
    in place of Pillow's global ones. What was there before is put back, once no thread is inside;
    while several are, the widest limits hold."""
    wish = (_SPARE + _BYTES_A_PIXEL * pixels, limits.allow_truncated)
    with _inside.lock:
        _inside.enter(wish)
    try:
        yield
    finally:
        with _inside.lock:
            _inside.leave(wish)


class _Inside:
    """The threads that decode now, and what the process's settings were before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wishes: list[tuple[int, bool]] = []
        self.pillows: tuple[bool, int | None] = (False, None)
        self.memory: tuple[int, int] | None = None

    def enter(self, wish: tuple[int, bool]) -> None:
        if not self.wishes:
            self.pillows = ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
            self.memory = _memory_limit()
        self.wishes.append(wish)
        ImageFile.LOAD_TRUNCATED_IMAGES = any(truncated for _, truncated in self.wishes)
        Image.MAX_IMAGE_PIXELS = None
        if self.memory is not None:
            _set_memory_limit(self.memory, sum(more for more, _ in self.wishes))

    def leave(self, wish: tuple[int, bool]) -> None:
        self.wishes.remove(wish)
        if not self.wishes:
            ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = self.pillows
            if self.memory is not None:
                _set_memory_limit(self.memory, None)


_inside = _Inside()


def _memory_limit() -> tuple[int, int] | None:
    """The process's soft and hard limit in bytes; None where we don't set one."""
    if sys.platform == "win32" or not _STATUS.exists():
        return None
    return resource.getrlimit(resource.RLIMIT_AS)


def _set_memory_limit(before: tuple[int, int], more: int | None) -> None:
    """Allow so many bytes more than are in use, within what was allowed before; or just that."""
    if sys.platform == "win32":
        return
    soft, hard = before
    if more is not None:
        used = int(_STATUS.read_text().split()[0]) * resource.getpagesize()
        allowed = [each for each in before if each != resource.RLIM_INFINITY]
        soft = min([used + more, *allowed])
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
