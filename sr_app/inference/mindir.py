"""MindSpore's own file format: written from a network, and run from a file."""

from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from sr_app import kernels
from sr_app.errors import CheckpointError
from sr_app.inference.engines import Part, Pixels
from sr_app.nets import weights
from sr_app.nets.description import plain_relu
from sr_app.nets.table import NetworkConfig, make
from sr_app.nets.weights import Arrays


def mindir(
    config: NetworkConfig,
    arrays: Arrays,
    part: Part,
    size: tuple[int, int] | None,
    folder: Path,
) -> bytes:
    """The content of a MindIR file, of MindSpore's own operators with a plain ReLU; `folder` is
    for MindSpore to write to."""
    with kernels.portable():
        network = make(plain_relu(config), "plain")
    network.set_train(False)
    weights.fill(network, arrays, "these weights")
    cell, channels = (network.trunk, config.features) if part == "trunk" else (network, 3)
    if size is None:
        given = Tensor(shape=[None, channels, None, None], dtype=ms.float32)
        cell.set_inputs(given)  # or the pixel shuffle would keep one picture's size
    else:
        given = Tensor(np.zeros((1, channels, *size), np.float32))
    file = folder / "network.mindir"
    ms.export(cell, given, file_name=str(file), file_format="MINDIR")
    return file.read_bytes()


def mindir_session(path: Path) -> Callable[[Pixels], Pixels]:
    """A MindIR file in MindSpore; CheckpointError when it can't load it."""
    kernels.hold_to_avx2()
    try:
        cell = nn.GraphCell(ms.load(str(path)))
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path}: MindSpore can't load it: {error}") from error

    def run(low: Pixels) -> Pixels:
        high: Pixels = cell(Tensor(np.ascontiguousarray(low))).asnumpy()
        return high

    return run
