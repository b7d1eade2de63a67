"""The command `convert`."""

from pathlib import Path
from typing import Literal

from sr_app.cli.models import checkpoint_file
from sr_app.cli.options import parse, parser_of
from sr_app.errors import ConfigError


def convert(words: list[str]) -> int:
    """EDSR's weights from PyTorch (EDSR-PyTorch, BasicSR) to a checkpoint, or back"""
    from sr_app import convert as converting
    from sr_app.nets import weights

    parser = parser_of("convert", convert)
    parser.add_argument("source", type=str, help="a .pt, .pth or .safetensors of theirs, or ours")
    parser.add_argument("output", type=str, help="the file to write")
    parser.add_argument(
        "--to",
        type=converting.Style | None,
        default=None,
        help="edsr-pytorch or basicsr: write our checkpoint with their names; by default the "
        "source is theirs",
    )
    parser.add_argument(
        "--value-range",
        type=Literal[1, 255] | None,
        default=None,
        help="of the PyTorch network's pictures, 1 or 255; by default what its file tells, or 255",
    )
    parser.add_argument(
        "--residual-scale",
        type=float,
        default=1.0,
        help="isn't in their files: 1 for EDSR-baseline, 0.1 for the full EDSR",
    )
    given = parse(parser, words)
    source, target = Path(given["source"]), Path(given["output"])
    value_range = given["value_range"]
    if given["to"] is None:
        if target.suffix != ".safetensors":
            raise ConfigError(f"{target}: a checkpoint's name ends in .safetensors")
        found = converting.from_torch(source, given["residual_scale"], value_range)
        weights.write(target, found)
    else:
        if target.suffix not in converting.ENDINGS:
            raise ConfigError(f"{target}: its name must end in {', '.join(converting.ENDINGS)}")
        found = weights.read(checkpoint_file(source))
        converting.to_torch(found, target, given["to"], value_range or 255)
    config = found.config
    print(
        f"{source} -> {target}: EDSR of {config.blocks} blocks x {config.features}, "
        f"x{config.scale}, residual scale {config.residual_scale:g}"
    )
    return 0
