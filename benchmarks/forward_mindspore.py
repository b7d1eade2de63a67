"""A picture through our network in MindSpore: its own operators or ours; PyNative, `ms.jit` of all,
or what inference does: the trunk and the rest compiled apart (static.py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import mindspore as ms
from case import SCALE, Forward, Pixels
from interleave import Take
from mindspore import Tensor, nn
from step_mindspore import leave_weights

from sr_app.inference.static import StaticNetwork
from sr_app.nets.description import EDSRConfig
from sr_app.nets.layers import initialise
from sr_app.nets.table import make
from sr_app.nets.weights import Weights, gather, write


def start(
    case: Forward,
    folder: str,
    kernels: Literal["on", "off"],
    how: Literal["pynative", "jit", "static"],
    output: str,
) -> Take:
    """A call of the network; leaves its weights for the other sides, and its first result."""
    os.environ["SR_KERNELS"] = kernels
    config = EDSRConfig(scale=SCALE, blocks=case.blocks, features=case.features)
    network = make(config, "fast" if kernels == "on" else "plain")
    initialise(network, seed=0)
    network.set_train(False)
    leave(config, gather(network), Path(folder))
    static = StaticNetwork(config, gather(network)).forward if how == "static" else None
    return case.calls(static or forwarding(network, how == "jit"), output)


def forwarding(network: nn.Cell, jit: bool) -> Callable[[Pixels], Pixels]:
    """The network as it is, or compiled as a whole for all sizes."""
    if jit:
        network.set_inputs(Tensor(shape=[1, 3, None, None], dtype=ms.float32))
    function = ms.jit(network) if jit else network
    return lambda low: function(Tensor(low)).asnumpy()


def leave(config: EDSRConfig, arrays: dict[str, Pixels], folder: Path) -> None:
    """Write the network as our checkpoint, its weights with PyTorch's names, and as ONNX where that
    is installed."""
    file = folder / "weights.npz"
    if file.exists():
        return
    leave_weights(config, arrays, file)
    write(folder / "network.safetensors", Weights(config, arrays))
    if find_spec("onnx") is not None:
        from sr_app.inference.graph import graph

        (folder / "network.onnx").write_bytes(graph(config, arrays, "network").SerializeToString())
