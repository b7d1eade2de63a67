"""EDSR's weights from PyTorch and back: EDSR-PyTorch's and BasicSR's names and value ranges.

Nothing in a file is executed: `.pt` and `.pth` go through `torch.load(weights_only=True)`, which
builds tensors and plain containers alone, `.safetensors` needs no PyTorch at all.
"""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from sr_app.atomic import replacing
from sr_app.errors import CheckpointError, ConfigError
from sr_app.nets.description import MEAN, STAGES, VALUE_RANGE, EDSRConfig, torch_names
from sr_app.nets.weights import Arrays, Weights, require_finite

Style = Literal["edsr-pytorch", "basicsr"]
Named = dict[str, NDArray[Any]]
PICKLED = (".pt", ".pth")
ENDINGS = (*PICKLED, ".safetensors")
SHIFTS = ("sub_mean", "add_mean")  # EDSR-PyTorch's convolutions of 1x1 that take off the mean


def from_torch(path: Path, residual_scale: float, value_range: float | None = None) -> Weights:
    """A PyTorch EDSR as ours; its shape is told by its weights.

    residual_scale: isn't in the file; 1 for the baseline, 0.1 for the full network.
    value_range: what the network was trained on, 0..1 or 0..255; None takes what EDSR-PyTorch's
    file tells by its `sub_mean`, else 255 (as BasicSR's published ones are). CheckpointError for a
    file that doesn't fit; says which keys are missing, left over, or of another shape.
    """
    theirs = read(path)
    style: Style = "basicsr" if "conv_first.weight" in theirs else "edsr-pytorch"
    config = replace(_shape(theirs, style, path), residual_scale=residual_scale)
    found = _range_of(theirs)
    if None not in (value_range, found) and value_range != found:
        raise ConfigError(
            f"--value-range {value_range:g} was given, but the mean in {path} is for 0..{found:g}"
        )
    names = _names(config, style)
    _require_same(config, names, theirs, path)
    arrays = {ours: theirs[name].astype(np.float32) for ours, name in names.items()}
    require_finite(arrays, path)
    record = {"converted": {"from": path.name, "style": style}}
    return Weights(config, _scaled(arrays, value_range or found or VALUE_RANGE), record)


def to_torch(weights: Weights, path: Path, style: Style, value_range: float = VALUE_RANGE) -> None:
    """Write our weights with their names; `.pt` and `.pth` need PyTorch. CheckpointError if the
    file can't be written."""
    arrays = _scaled(weights.arrays, VALUE_RANGE**2 / value_range)
    theirs: Named = {name: arrays[ours] for ours, name in _names(weights.config, style).items()}
    if style == "edsr-pytorch":
        for name, sign in zip(SHIFTS, (-1, 1), strict=True):
            theirs[f"{name}.weight"] = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
            theirs[f"{name}.bias"] = (sign * value_range * np.array(MEAN)).astype(np.float32)
    try:
        with replacing(path) as temporary:
            if path.suffix in PICKLED:
                torch = _torch(path)
                state = {name: torch.from_numpy(array.copy()) for name, array in theirs.items()}
                torch.save({"params": state} if style == "basicsr" else state, temporary)
            else:
                contiguous = {name: np.ascontiguousarray(array) for name, array in theirs.items()}
                temporary.write_bytes(save(contiguous))
    except OSError as error:
        raise CheckpointError(f"{path}: can't be written: {error.strerror}") from error


def read(path: Path) -> Named:
    """The arrays of a PyTorch or safetensors file by name; CheckpointError for any other."""
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    try:
        if path.suffix in PICKLED:
            content: Any = _torch(path).load(path, map_location="cpu", weights_only=True)
        elif path.suffix == ".safetensors":
            content = load_file(path)
        else:
            raise CheckpointError(f"{path}: its name must end in {', '.join(ENDINGS)}")
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        told = str(error).splitlines() or ["no message"]
        raise CheckpointError(f"{path}: not a file of weights alone: {told[0]}") from error
    for key in ("params_ema", "params", "state_dict", "model"):  # BasicSR's and others' wrapping
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{path}: holds no weights by name")
    arrays = {str(name).removeprefix("module."): _array(value) for name, value in content.items()}
    if odd := [name for name, array in arrays.items() if array is None]:
        raise CheckpointError(f"{path}: holds other things than weights: {_some(odd)}")
    return {name: array for name, array in arrays.items() if array is not None}


def _array(value: Any) -> NDArray[Any] | None:
    if isinstance(value, np.ndarray):
        return value
    if not all(hasattr(value, name) for name in ("detach", "float")):
        return None
    found: NDArray[Any] = value.detach().float().numpy()
    return found


def _torch(path: Path) -> Any:
    if find_spec("torch") is None:
        raise ConfigError(
            f"{path}: {path.suffix} is PyTorch's format and needs PyTorch: pip install "
            "'.[convert]'; or save the weights as .safetensors, which needs nothing"
        )
    import torch

    return torch


def _shape(theirs: Named, style: Style, path: Path) -> EDSRConfig:
    """The network that such weights belong to."""
    first, stage = {
        "edsr-pytorch": ("head.0.weight", "tail.0.{}.weight"),
        "basicsr": ("conv_first.weight", "upsample.{}.weight"),
    }[style]
    inner = "body.{}.body.0.weight" if style == "edsr-pytorch" else "body.{}.conv1.weight"
    blocks = 0
    while inner.format(blocks) in theirs:
        blocks += 1
    try:
        features = theirs[first].shape[0]
        factor = round((theirs[stage.format(0)].shape[0] / features) ** 0.5)
    except (KeyError, IndexError, ZeroDivisionError):
        features, factor = 0, 0
    stages = (factor,) * sum(stage.format(2 * k) in theirs for k in range(2))
    scales: tuple[Literal[2, 3, 4], ...] = (2, 3, 4)
    scale = next((each for each in scales if STAGES[each] == stages), None)
    if not (blocks and features and scale):
        raise CheckpointError(
            f"{path}: these are no EDSR's weights by EDSR-PyTorch's or BasicSR's names; its keys "
            f"are {_some(theirs)}"
        )
    try:
        return EDSRConfig(scale=scale, blocks=blocks, features=features)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _names(config: EDSRConfig, style: Style) -> dict[str, str]:
    """Our parameters' names -> theirs."""
    cells = torch_names(config) if style == "edsr-pytorch" else _basicsr_names(config)
    return {f"{ours}.{kind}": f"{cells[ours]}.{kind}" for ours in cells for kind in KINDS}


KINDS = ("weight", "bias")


def _basicsr_names(config: EDSRConfig) -> dict[str, str]:
    names = {"head": "conv_first", "trunk.last": "conv_after_body", "tail": "conv_last"}
    for block in range(config.blocks):
        for conv in ("conv1", "conv2"):
            names[f"trunk.blocks.{block}.{conv}"] = f"body.{block}.{conv}"
    for stage in range(len(STAGES[config.scale])):  # convolutions and shuffles alternate
        names[f"upsample.{stage}.conv"] = f"upsample.{2 * stage}"
    return names


def _require_same(config: EDSRConfig, names: dict[str, str], theirs: Named, path: Path) -> None:
    """CheckpointError unless the file has these arrays and no others."""
    wanted = {names[ours]: shape for ours, shape in config.shapes.items()}
    known = {f"{name}.{kind}" for name in SHIFTS for kind in KINDS} | {"mean"}
    left_over = theirs.keys() - wanted.keys() - known
    others = [
        f"{name} {theirs[name].shape} for {shape}"
        for name, shape in wanted.items()
        if name in theirs and theirs[name].shape != shape
    ]
    told = [
        f"{what}: {_some(each)}"
        for what, each in (
            ("missing", sorted(wanted.keys() - theirs.keys())),
            ("left over", sorted(left_over)),
            ("of another shape", others),
        )
        if each
    ]
    if told:
        raise CheckpointError(
            f"{path}: does not fit an EDSR of {config.blocks} blocks x {config.features}, "
            f"x{config.scale}: {'; '.join(told)}"
        )


def _range_of(theirs: Named) -> float | None:
    """The value range that EDSR-PyTorch's own mean is for."""
    bias = theirs.get("sub_mean.bias")
    if bias is None or bias.shape != (3,):
        return None
    return 1.0 if np.abs(bias).max() < 1.5 else VALUE_RANGE


def _scaled(arrays: Arrays, value_range: float) -> Arrays:
    """Weights for 0..value_range as weights for 0..255: what goes in is divided at the first
    convolution, what comes out multiplied at the last."""
    factor = np.float32(VALUE_RANGE / value_range)
    return {
        **arrays,
        "head.weight": arrays["head.weight"] / factor,
        "tail.weight": arrays["tail.weight"] * factor,
        "tail.bias": arrays["tail.bias"] * factor,
    }


def _some(names: Iterable[str]) -> str:
    each = list(names)
    return f"{', '.join(each[:5])}{' ...' if len(each) > 5 else ''} ({len(each)})"
