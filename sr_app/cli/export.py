"""The command `export`."""

import re
from pathlib import Path

from sr_app.cli.models import checkpoint_file
from sr_app.cli.options import parse, parser_of
from sr_app.errors import ConfigError


def export(words: list[str]) -> int:
    """write a network, or its trunk, for other programs: ONNX or MindIR, checked at once"""
    from sr_app.inference import export as exporting
    from sr_app.inference.engines import Part
    from sr_app.nets import weights

    parser = parser_of("export", export)
    parser.add_argument("checkpoint", type=str, help="a checkpoint or a run's folder")
    parser.add_argument("--format", type=exporting.Format, default="onnx", help="onnx or mindir")
    parser.add_argument("--part", type=Part, default="network", help="trunk or network")
    parser.add_argument("--size", type=str, default="dynamic", help="HEIGHTxWIDTH, or dynamic")
    parser.add_argument(
        "-o", "--output", type=str | None, default=None, help="by default beside the checkpoint"
    )
    given = parse(parser, words)
    source = checkpoint_file(Path(given["checkpoint"]))
    form, part = given["format"], given["part"]
    suffix = "" if part == "network" else f"_{part}"
    target = Path(given["output"] or source.with_name(f"{source.stem}{suffix}.{form}"))
    if exporting.ENDINGS.get(target.suffix) != form:
        raise ConfigError(f"--output {target}: the name of a {form} file ends in .{form}")
    size = None if given["size"] == "dynamic" else _size(given["size"])
    about = exporting.export(weights.read(source), target, form, part, size)
    largest = max(about["largest_difference"].values())
    print(
        f"{source} -> {target}, {part}, size {about['size']}; at "
        f"{' and '.join(about['largest_difference'])} its results differ from the source's by at "
        f"most {largest:.1e} of 255; described in {exporting.beside(target)}"
    )
    return 0


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text)
    if match is None:
        raise ConfigError(f"--size must be dynamic or HEIGHTxWIDTH, like 48x64, got {text!r}")
    return int(match[1]), int(match[2])
