"""Super-resolution in MindSpore: train, score, upscale.

Importing the package is light: MindSpore is loaded when a network is first needed. One of MindSpore
2.10's traps must be handled before that, so it is handled here: its PyNative mode raises on the
first operator under NumPy 2 (the wheel allows it).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    engine: native, mindspore, onnxruntime, openvino, or auto: the fastest that is there.
    """
    from sr_app.inference.model import Model

    return Model.load(Path(checkpoint), engine=engine)


def upscale(
    source: NDArray[Any] | Picture | str | Path,
    output: str | Path | None = None,
    *,
    model: Model | str | Path | None = None,
    scale: float | None = None,
    width: int | None = None,
    height: int | None = None,
    ensemble: bool = False,
    tile: int | None = None,
    quality: int | None = None,
    max_pixels: int | None = None,
    allow_truncated: bool = False,
) -> Any:
    """Enlarge a picture, as the command `upscale` does; returns what `source` is.

    Args:
        source: pixels (h, w) or (h, w, c), uint8, uint16 or float32 (white at 1.0), c as in
            `Picture`; a `Picture`; or a file, which is read and comes back as a `Picture`.
        output: a file to write instead, with all frames or pages; its path is returned.
        model: a network or its file; by default the shipped one of the least scale that reaches.
        scale: any number from 1; without it and a size the network's own, or 2.
        width, height: of the result in pixels instead: what isn't given follows.
        ensemble: the mean over 8 flips and turns. tile: side of a tile in pixels.
        quality: 1..100, of a written JPEG or WebP.
        max_pixels, allow_truncated: what to take of a file; see `sr_app.image.limits.Limits`.

    Raises a SrAppError (see `sr_app.errors`) that says what is wrong and what to do.
    """
    from sr_app.image.files import read, write
    from sr_app.image.limits import MAX_PIXELS, Limits
    from sr_app.image.picture import Picture
    from sr_app.inference.jobs import Job, Wish, upscale_file, upscale_picture
    from sr_app.inference.model import TILE
    from sr_app.inference.networks import Networks

    chosen = load(model) if isinstance(model, (str, Path)) else model
    networks = Networks(chosen, TILE if tile is None else tile, ensemble)
    limits = Limits(MAX_PIXELS if max_pixels is None else max_pixels, allow_truncated)
    wish = Wish(scale, width, height, quality, limits)
    if isinstance(source, (str, Path)):
        if output is not None:
            upscale_file(Job(Path(source), Path(output)), networks, wish)
            return Path(output)
        return upscale_picture(read(source, limits), networks, wish)
    if isinstance(source, Picture):
        large = upscale_picture(source, networks, wish)
        result: Any = large
    else:
        flat = source.ndim == 2
        large = upscale_picture(Picture(source[..., None] if flat else source), networks, wish)
        result = large.pixels[..., 0] if flat else large.pixels
    if output is None:
        return result
    write(output, large, quality)
    return Path(output)
