"""What commands share: which network is meant, and what computes it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsonargparse import ArgumentParser

from sr_app.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sr_app.inference.engines import Mode
    from sr_app.inference.model import Model

RUNS = Path("checkpoints")
INSPECT = "SR_INSPECT"


def load_model(
    given: Path | str, scale: int | None, engine: str = "auto", mode: "Mode" = "jit"
) -> "Model":
    """The network of a checkpoint, of a run's folder or an exported file; of `scale`, if one is
    asked for. See `Model.load`."""
    from sr_app.inference.model import Model

    looked_for = os.environ.get(INSPECT)
    if engine == "auto" and looked_for:
        engine = "mindspore"  # the fastest may be one that can't be looked into
    path = Path(given)
    file = checkpoint_file(path)
    model = Model.load(file, path.name if path.is_dir() else None, engine, mode)
    if looked_for:
        _look_into(model, looked_for)
    if scale not in (None, model.scale):
        raise ConfigError(f"--scale {scale} was asked for, but {path} enlarges x{model.scale}")
    return model


def checkpoint_file(path: Path) -> Path:
    """The file itself, or the best of a run's folder (the latest, if it never scored)."""
    if not path.is_dir():
        return path
    from sr_app.training.checkpoint import BEST, LATEST

    return path / BEST if (path / BEST).exists() else path / LATEST


def add_engine(parser: ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--engine",
        type=str,
        default=default,
        help="native, mindspore, onnxruntime or openvino; auto takes the fastest that is there "
        f"(default: {default})",
    )
    parser.add_argument(
        "--mode", type=Literal["jit", "pynative"], default="jit", help="pynative: to debug"
    )


def _look_into(model: "Model", patterns: str) -> None:
    """Tell of the layers that SR_INSPECT names, with commas between, as their results come."""
    from sr_app.inference.inspect import tap

    def tell(name: str, features: "NDArray[np.float32]") -> None:
        shape = " x ".join(map(str, features.shape))
        print(f"{name}: {shape}, {features.min():.4g} .. {features.max():.4g}", file=sys.stderr)

    taps = tap(model, patterns.split(","), tell)
    if taps.note:
        print(taps.note, file=sys.stderr)


def newest(scale: int | None) -> Path:
    """The run (of `scale`, if one is asked for) whose network is newest, or the shipped network."""
    from sr_app.inference.networks import shipped
    from sr_app.nets import weights
    from sr_app.training.checkpoint import BEST

    runs = sorted(RUNS.glob(f"*/{BEST}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in runs:
        if scale in (None, weights.read(path).config.scale):
            return path.parent
    return shipped(scale or 2)
