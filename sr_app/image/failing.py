"""How the libraries' errors are told."""

from collections.abc import Iterator
from contextlib import contextmanager

from sr_app.errors import PictureError


@contextmanager
def failing_as(message: str) -> Iterator[None]:
    """Tell any failure as PictureError: damaged files make the libraries raise nearly anything."""
    try:
        yield
    except PictureError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PictureError(f"{message} ({found})") from error


def reason(error: OSError | ValueError) -> str:
    """What the system said, or Python of a name that the system would not take."""
    return getattr(error, "strerror", None) or str(error)
