"""Super-resolution in MindSpore: train, score, upscale.

Importing the package is light: MindSpore is loaded when a network is first needed. One of MindSpore
2.10's traps must be handled before that, so it is handled here: its PyNative mode raises on the
first operator under NumPy 2 (the wheel allows it).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sr_app.image.picture import Picture
    from sr_app.inference.model import Model

__all__ = ["__version__", "load", "upscale"]
__version__ = "0.1.0"


def _require_numpy_1(numpy_version: str) -> None:
    if int(numpy_version.split(".")[0]) >= 2:
        raise ImportError(
            f"sr_app needs NumPy below 2, found {numpy_version}: MindSpore 2.10 fails with it. "
            "Run `make setup`, or `pip install 'numpy<2'`."
        )


_require_numpy_1(version("numpy"))


def load(checkpoint: str | Path, engine: str = "auto") -> Model:
    """The network of a checkpoint or exported file, ready to use; raises CheckpointError.

    engine: mindspore, onnxruntime, openvino, or auto: the fastest that is installed.
    """
    from sr_app.inference.model import Model

    return Model.load(Path(checkpoint), engine=engine)


def upscale(picture: Picture, model: Model) -> Picture:
    """A picture (see `sr_app.image.files.read`) enlarged by the model's scale."""
    from sr_app.inference.upscale import upscale as enlarge

    return enlarge(picture, model)
