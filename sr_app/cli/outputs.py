"""What commands share: files that they write beside pictures."""

import os
from pathlib import Path

from sr_app.atomic import replacing
from sr_app.errors import ConfigError, PictureError


def folder_at(name: str) -> Path:
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PictureError(f"{path}: this folder can't be made: {error.strerror}") from error
    return path


def require_writable(*names: str | None) -> None:
    """ConfigError, before any work, for files that can't be written, or not all."""
    paths = [Path(name) for name in names if name is not None]
    for path in paths:
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path}: can't be written: not a file in a folder that you may use")
    if len({path.absolute() for path in paths}) < len(paths):
        raise ConfigError(f"{paths[0]}: would be written twice; give two names")


def write_text(path: Path, text: str) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error
    print(f"wrote {path}")
