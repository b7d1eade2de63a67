"""A picture through our network in MindSpore: its own operators or ours, PyNative or `ms.jit`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import mindspore as ms
from case import SCALE, Forward
from interleave import Take
from mindspore import Tensor
from step_mindspore import leave_weights

from sr_app.nets.edsr import EDSRConfig
from sr_app.nets.layers import initialise
from sr_app.nets.table import make
from sr_app.nets.weights import Arrays, gather


def start(
    case: Forward, folder: str, kernels: Literal["on", "off"], jit: bool, output: str
) -> Take:
    """A call of the network; leaves its weights for the other sides, and its first result."""
    os.environ["SR_KERNELS"] = kernels
    config = EDSRConfig(scale=SCALE, blocks=case.blocks, features=case.features)
    network = make(config, "fast" if kernels == "on" else "plain")
    initialise(network, seed=0)
    network.set_train(False)
    leave(config, gather(network), Path(folder))
    forward = network
    if jit:  # as inference/model.py does
        network.set_inputs(Tensor(shape=[1, 3, None, None], dtype=ms.float32))
        forward = ms.jit(network)
    return case.calls(lambda low: forward(Tensor(low)).asnumpy(), output)


def leave(config: EDSRConfig, arrays: Arrays, folder: Path) -> None:
    """Write the weights with PyTorch's names, and the network as ONNX where that is installed."""
    file = folder / "weights.npz"
    if file.exists():
        return
    leave_weights(config, arrays, file)
    if find_spec("onnx") is not None:
        from sr_app.inference.graph import graph

        (folder / "network.onnx").write_bytes(graph(config, arrays, "network").SerializeToString())
