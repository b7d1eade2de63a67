"""A network, or its trunk, in a file for other programs: ONNX or MindIR, checked as it is written.

Beside the file lies a small JSON with what a user of it must know: scale, value range, the
network's settings, versions, the file's SHA-256, and how far its results are from the source's.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sr_app import origin
from sr_app.atomic import replacing
from sr_app.errors import CheckpointError, ConfigError
from sr_app.inference.engines import LIGHT, SESSIONS, Engine, EngineName, FileEngine, Part
from sr_app.nets.description import VALUE_RANGE
from sr_app.nets.table import NETWORKS, NetworkConfig, name_of
from sr_app.nets.weights import Arrays, Weights

Format = Literal["mindir", "onnx"]
Size = tuple[int, int] | None
"""Height and width, or None for any."""

PACKAGES = ("sr_app", "mindspore", "onnx", "onnxruntime", "openvino", "numpy")
ENDINGS = {".onnx": "onnx", ".mindir": "mindir"}
SIZES = ((48, 48), (31, 77))  # where parity is checked; the second is no multiple of anything
TOLERANCE = 0.01
"""The most that a result may differ from the source's, of 255; the order of sums gives 1e-3."""


def export(source: Weights, target: Path, form: Format, part: Part, size: Size) -> dict[str, Any]:
    """Write a part of the network and its JSON; returns what the JSON says.

    `size` None leaves height and width free. The file is tried before it gets its name: at two
    sizes (or its own), against the network in MindSpore. CheckpointError, and no file, if a result
    differs by more than TOLERANCE, or where the file can't be written.
    """
    if size is not None and min(size) < 1:
        raise ConfigError(f"--size must be positive, got {size[0]}x{size[1]}")
    if form == "onnx" and not find_spec("onnx"):
        raise ConfigError("ONNX needs a package: pip install '.[onnx]'")
    try:
        with replacing(target) as temporary, replacing(beside(target)) as described:
            WRITERS[form](temporary, source.config, source.arrays, part, size)
            differences = _parity(temporary, source, part, [size] if size else SIZES)
            if not max(differences.values()) <= TOLERANCE:
                raise CheckpointError(
                    f"{target}: not written, since its results differ from the source's by "
                    f"{max(differences.values()):.3g} of 255 (allowed are {TOLERANCE}): "
                    f"{differences}"
                )
            about = _about(source, form, part, size, temporary, differences)
            described.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{target}: can't be written: {error.strerror}") from error
    return about


def beside(path: Path) -> Path:
    """The JSON of an exported file."""
    return path.with_name(path.name + ".json")


def open_exported(path: Path, wanted: str = "auto") -> tuple[NetworkConfig, Engine]:
    """An exported network, ready to compute in the wanted engine; CheckpointError for one that
    can't enlarge pictures.

    The JSON beside it tells what network it is, and that the file is whole.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    about_file = beside(path)
    try:
        about = json.loads(about_file.read_text(encoding="utf-8"))
        shape = dict(about["network"])
        config = NETWORKS[shape.pop("name")](**shape)
        part, size, digest = about["part"], about["size"], about["sha256"]
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        raise CheckpointError(
            f"{path}: its description {about_file} is missing or damaged ({error}); both are "
            "written by `export`"
        ) from error
    if part != "network" or size != "dynamic":
        raise CheckpointError(
            f"{path}: holds a {part} of size {size}; pictures need the whole network with a "
            "dynamic size: export it with --part network --size dynamic"
        )
    if origin.sha256(path) != digest:
        raise CheckpointError(f"{path}: is not the file that {about_file} describes; export again")
    return config, _engine(path, wanted)


def _engine(path: Path, wanted: str = "auto") -> Engine:
    """What runs this file: MindSpore for MindIR, ONNX Runtime or OpenVINO for ONNX."""
    runs: tuple[EngineName, ...] = ("mindspore",)
    if ENDINGS[path.suffix] == "onnx":
        runs = LIGHT
    if wanted not in ("auto", *runs):
        raise ConfigError(f"{path}: runs by {' or '.join(runs)}; --engine {wanted} can't read it")
    for name in runs:
        if wanted in ("auto", name) and find_spec(name):
            break
    else:
        raise ConfigError(
            f"{path}: to run it, {' or '.join(runs)} is needed: pip install '.[onnx]'"
        )
    if name != "mindspore":
        return FileEngine(name, path, SESSIONS[name](path.read_bytes()))
    from sr_app.inference.mindir import mindir_session

    return FileEngine(name, path, mindir_session(path))


def _write_onnx(path: Path, config: NetworkConfig, arrays: Arrays, part: Part, size: Size) -> None:
    from sr_app.inference.graph import graph

    path.write_bytes(graph(config, arrays, part, size).SerializeToString())


def _write_mindir(
    path: Path, config: NetworkConfig, arrays: Arrays, part: Part, size: Size
) -> None:
    from sr_app.inference.mindir import mindir

    with tempfile.TemporaryDirectory() as folder:  # MindSpore writes with a mode of its own
        path.write_bytes(mindir(config, arrays, part, size, Path(folder)))


Writer = Callable[[Path, NetworkConfig, Arrays, Part, Size], None]
WRITERS: dict[str, Writer] = {"onnx": _write_onnx, "mindir": _write_mindir}


def _parity(
    path: Path, source: Weights, part: Part, sizes: Sequence[tuple[int, int]]
) -> dict[str, float]:
    """The largest difference to the source at each size, of 255."""
    from sr_app.inference.static import StaticNetwork

    exported = _engine(path)
    live = StaticNetwork(source.config, source.arrays, "pynative")
    found = {}
    for height, width in sizes:
        low = np.random.default_rng(0).uniform(0, 255, (1, 3, height, width)).astype(np.float32)
        if part == "trunk":
            low, expected = live.through_trunk(low)
        else:
            expected = live.forward(low)
        found[f"{height}x{width}"] = float(np.abs(exported.forward(low) - expected).max())
    return found


def _about(
    source: Weights,
    form: Format,
    part: Part,
    size: Size,
    file: Path,
    differences: dict[str, float],
) -> dict[str, Any]:
    channels = source.config.features if part == "trunk" else 3
    return {
        "format": form,
        "part": part,
        "size": "dynamic" if size is None else f"{size[0]}x{size[1]}",
        "scale": source.config.scale,
        "value_range": VALUE_RANGE if part == "network" else None,
        "input": ["batch", channels, "height", "width"],
        "network": {"name": name_of(source.config), **asdict(source.config)},
        "largest_difference": differences,
        "sha256": origin.sha256(file),
        "versions": origin.versions(PACKAGES),
    }
