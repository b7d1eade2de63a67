"""A network in a file: its weights and all that is needed to use them (safetensors).

The metadata of the file holds one JSON text under `sr_app`: the format's version, the network's
shape, the value range, and a record (the run's settings, step and score) for the reader's eyes.
Nothing has to be retyped at use, and nothing in the file is ever executed.
"""

import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sr_app.atomic import replacing
from sr_app.errors import CheckpointError, ConfigError
from sr_app.nets.description import VALUE_RANGE
from sr_app.nets.table import NETWORKS, NetworkConfig, name_of

if TYPE_CHECKING:
    from mindspore import nn

FORMAT = 2
UNCHECKED = 1
"""The format of files that have no checksum yet."""
Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Weights:
    """A network's shape, its arrays by parameter name, and the record of how they came to be."""

    config: NetworkConfig
    arrays: Arrays
    record: dict[str, Any] = field(default_factory=dict)


def write(path: Path, weights: Weights, numbers: Literal["float32", "float16"] = "float32") -> None:
    """Write atomically, in half of the space as float16; CheckpointError when the disk refuses."""
    about = {
        "format": FORMAT,
        "network": {"name": name_of(weights.config), **asdict(weights.config)},
        "value_range": VALUE_RANGE,
        "record": weights.record,
    }
    arrays = {name: array.astype(numbers) for name, array in weights.arrays.items()}
    write_arrays(path, arrays, about)


def read(path: Path) -> Weights:
    """Read and check; raises CheckpointError for a file that isn't one of ours, whole and valid.

    What the file holds as float16 is float32 from here on.
    """
    arrays, about = read_arrays(path)
    try:
        if about["value_range"] != VALUE_RANGE:
            raise CheckpointError(
                f"{path}: trained on values 0..{about['value_range']}, this program uses "
                f"0..{VALUE_RANGE:g}; rescale its first and last convolution"
            )
        shape = dict(about["network"])
        name = shape.pop("name")
        if name not in NETWORKS:
            raise CheckpointError(
                f"{path}: holds a network {name!r}; this program knows {', '.join(NETWORKS)}"
            )
        config = NETWORKS[name](**shape)
        record = about["record"]
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise CheckpointError(f"{path}: its description is damaged: {error}") from error
    held = sum(array.size for array in arrays.values())
    if held != config.parameters:  # looked at before a network of that size is made
        raise CheckpointError(
            f"{path}: holds {held} numbers, but the network that it describes has "
            f"{config.parameters}"
        )
    half = {name: array for name, array in arrays.items() if array.dtype == np.float16}
    whole = {name: array.astype(np.float32) for name, array in half.items()}
    return Weights(config, {**arrays, **whole}, record)


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> None:
    """Write arrays and a JSON description atomically; CheckpointError when the disk refuses."""
    try:
        with replacing(path) as temporary:
            text = json.dumps(about)
            checked = {"sr_app": text, "crc32": str(_checksum(text, arrays))}
            temporary.write_bytes(save(arrays, checked))
    except OSError as error:
        raise CheckpointError(
            f"{path}: can't be written: {error.strerror}; the previous one is kept"
        ) from error


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and description as written by `write_arrays`; CheckpointError when damaged, were it
    by a single bit: the library itself loads such a file without a word."""
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint")
    try:
        with safe_open(path, framework="numpy") as file:
            held = file.metadata() or {}
            text, checksum = held["sr_app"], held.get("crc32")
            about = json.loads(text)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except KeyError as error:
        raise CheckpointError(
            f"{path}: a safetensors file, but not of this program (no {error} in its metadata)"
        ) from error
    except (
        SafetensorError,
        OSError,
        ValueError,
        RecursionError,
        AttributeError,
        TypeError,
    ) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file: {error}") from error
    if not isinstance(about, dict) or about.get("format") not in (FORMAT, UNCHECKED):
        raise CheckpointError(f"{path}: this program reads format {FORMAT}, the file is of another")
    if about["format"] == FORMAT and checksum != str(_checksum(text, arrays)):
        raise CheckpointError(f"{path}: is damaged: its checksum is not that of what it holds")
    return arrays, about


def _checksum(text: str, arrays: dict[str, NDArray[Any]]) -> int:
    """CRC-32 of a description and of all arrays with their names, types and shapes."""
    checksum = zlib.crc32(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        checksum = zlib.crc32(f"{name} {array.dtype} {array.shape}".encode(), checksum)
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


def gather(network: "nn.Cell") -> Arrays:
    """Copies of all parameters by name."""
    return {name: p.asnumpy().copy() for name, p in network.parameters_dict().items()}


def fill(network: "nn.Cell", arrays: Arrays, source: Path | str) -> None:
    """Copy arrays into the network's parameters, in place, so that compiled kernels see them.

    (After its first call a jitted function doesn't see `set_data` or `load_param_into_net`.)
    Raises CheckpointError that names both sides unless names and shapes are the same, and for
    values that aren't finite floating-point numbers; then nothing is changed.
    """
    parameters = network.parameters_dict()
    require_fit({name: tuple(p.shape) for name, p in parameters.items()}, arrays, source)
    from mindspore import Tensor  # needed here alone

    for name, parameter in parameters.items():
        parameter.copy_(Tensor(np.asarray(arrays[name], np.float32, order="C")))


def require_fit(ours: dict[str, tuple[int, ...]], arrays: Arrays, source: Path | str) -> None:
    """CheckpointError as `fill` raises it; `ours` are the shapes wanted, by name."""
    theirs = {name: array.shape for name, array in arrays.items()}
    if ours != theirs:
        missing, foreign = sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours.keys())
        both = sorted(ours.keys() & theirs.keys())
        other = [f"{n} {theirs[n]} for {ours[n]}" for n in both if theirs[n] != ours[n]]
        told = [
            f"{what}: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''} ({len(names)})"
            for what, names in (("missing", missing), ("unknown", foreign), ("shapes", other))
            if names
        ]
        raise CheckpointError(f"{source}: does not fit the network: {'; '.join(told)}")
    require_finite(arrays, source)


def require_finite(arrays: dict[str, NDArray[Any]], source: Path | str) -> None:
    """CheckpointError that names the first array with other than finite floating-point numbers."""
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise CheckpointError(
                f"{source}: {name} ({array.dtype}) holds other than finite floating-point numbers"
            )
