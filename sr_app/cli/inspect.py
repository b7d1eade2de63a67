"""The command `inspect`."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sr_app.cli.models import load_model, newest
from sr_app.cli.options import parse, parser_of
from sr_app.cli.outputs import require_writable, write_text
from sr_app.image import files
from sr_app.image.picture import Picture, white

INSPECTED = 256  # pixels a side that are looked at, from the top left corner


def inspect(words: list[str]) -> int:
    """look inside a network: features of layers on a picture, and what flows back to them"""
    from sr_app import drawing
    from sr_app.inference import inspect as inside

    parser = parser_of("inspect", inspect)
    parser.add_argument("picture", type=str, help="the file")
    parser.add_argument(
        "--checkpoint",
        type=str | None,
        default=None,
        help="a checkpoint or a run's folder; by default the newest run, or the shipped network",
    )
    parser.add_argument(
        "--layers",
        type=str,
        default="trunk.blocks.*.activation",
        help="names of layers, with commas between; * stands for any part of a name",
    )
    parser.add_argument(
        "--gradients", action="store_true", help="what the training's loss sends back, too"
    )
    parser.add_argument("--json", type=str | None, default=None, help="write all numbers here")
    parser.add_argument(
        "--maps", type=str | None, default=None, help="PNG for a grid of the layers' feature maps"
    )
    parser.add_argument(
        "--chart", type=str | None, default=None, help="PNG for a chart of the numbers by depth"
    )
    given = parse(parser, words)
    require_writable(given["json"], given["maps"], given["chart"])
    piece = _rgb(files.read(Path(given["picture"])))[:INSPECTED, :INSPECTED]
    model = load_model(given["checkpoint"] or newest(None), None, "mindspore")
    patterns = [pattern.strip() for pattern in given["layers"].split(",")]
    with inside.tapped(model, patterns) as taps:
        model.enhance(piece.astype(np.float32), tile=INSPECTED)  # all of it at once
    if taps.note:
        print(taps.note, file=sys.stderr)
    numbers = {
        name: asdict(inside.forward_numbers(features)) for name, features in taps.features.items()
    }
    if given["gradients"]:
        for name, back in inside.gradients(model, piece, patterns).items():
            numbers[name].update(asdict(back))
    print(drawing.text_table(numbers))
    if given["json"]:
        write_text(Path(given["json"]), json.dumps(numbers, indent=2) + "\n")
    if given["maps"]:
        files.write(Path(given["maps"]), Picture(drawing.feature_maps(taps.features)))
    if given["chart"]:
        files.write(Path(given["chart"]), Picture(drawing.chart(numbers)))
    return 0


def _rgb(picture: Picture) -> "NDArray[np.uint8]":
    """Its colour as RGB of 8 bits."""
    pixels = picture.color
    values = np.rint(pixels * (255 / white(pixels.dtype))).clip(0, 255).astype(np.uint8)
    return np.broadcast_to(values, (picture.height, picture.width, 3))
