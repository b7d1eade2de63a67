"""The phases of a cold start in a process of its own: cold_start_side.py ENGINE PICTURE.

Tells as JSON when the command was imported (`imported at`, by the clock), and the seconds of what
follows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import sr_app.cli.upscale  # noqa: F401  what the command imports before it knows the engine

IMPORTED_AT = time.time()

if TYPE_CHECKING:
    from sr_app.inference.engines import EngineName
    from sr_app.inference.model import Model

MODULES = {"native": "sr_app.inference.native", "mindspore": "sr_app.inference.static"}
"""What an engine imports; for the others, the package of its name."""


def main(engine: EngineName, picture: str) -> None:
    """Go through the phases and tell them."""
    from pathlib import Path

    from sr_app.image.files import read
    from sr_app.inference.model import Model
    from sr_app.inference.networks import shipped

    imports = seconds(lambda: __import__(MODULES.get(engine, engine)))
    pixels = read(Path(picture)).pixels.astype("float32")
    models: list[Model] = []
    build = seconds(lambda: models.append(Model.load(shipped(2), engine=engine)))
    first, later = (seconds(lambda: models[0].enhance(pixels)) for _ in range(2))
    told = {
        "imported at": IMPORTED_AT,
        "engine's imports": imports,
        "build": build,
        "compile": max(0.0, first - later),
        "run": later,
    }
    print(json.dumps(told))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
