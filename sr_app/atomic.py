"""Files that are either the old one or the whole new one, also after a power cut."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder; it becomes `path` when the block ends without an error.

    The content is on the disk (fsync) before the name changes, so that `path` is never half
    written. On an error the temporary file is removed and `path` is left as it was. The temporary
    name keeps the ending, by which writers choose their format.
    """
    temporary = path.with_name(f".{path.stem[:64]}.{secrets.token_hex(4)}.part{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        temporary.unlink(missing_ok=True)
