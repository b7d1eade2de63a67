"""What is kept of a measurement: on what, with what, how, and the figures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sr_app.origin import machine, origin

RESULTS = Path(__file__).parent.parent / "results"
PACKAGES = ("sr_app", "mindspore", "torch", "onnxruntime", "openvino", "numpy")


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser of the words that all scripts take."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="a tiny size: does the script work?")
    name = _script().with_suffix(".json")
    parser.add_argument(
        "--json", type=Path, help=f"file for the figures (results/{name}; none with --quick)"
    )
    return parser


def write(given: argparse.Namespace, settings: dict[str, Any], figures: dict[str, Any]) -> None:
    """Write the figures with everything that they depend on, where the arguments say."""
    record = {
        **origin(PACKAGES),
        "command": " ".join(["python", f"benchmarks/{_script()}", *sys.argv[1:]]),
        "settings": settings,
        "figures": figures,
    }
    print("\n{processor}, {cores} cores".format(**machine()))
    path = given.json or (None if given.quick else RESULTS / _script().with_suffix(".json"))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=2) + "\n")
        print(f"figures written to {path}")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns of even width, the first to the left, the others to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def on_ranks(script: str, ranks: int, small: bool) -> dict[str, Any]:
    """The figures that `script --rank FILE [--quick]` leaves, run on so many ranks."""
    from sr_app.parallel import launch  # loads MindSpore, which the other scripts' parent needs not

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        words = [script, "--rank", str(file), *(["--quick"] if small else [])]
        logs = Path(folder) / "ranks"
        status = launch.run(words, launch.Ranks(ranks), logs, lambda text: print(text, end=""))
        if status:
            sys.exit(status)
        figures: dict[str, Any] = json.loads(file.read_text())
        return figures


def _script() -> Path:
    return Path(Path(sys.argv[0]).name)
