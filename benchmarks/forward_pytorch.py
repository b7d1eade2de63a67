"""A picture through the same network in PyTorch: eager, channels_last, or compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from case import SCALE, Forward, Pixels
from interleave import THREADS, Take
from torch_edsr import TorchEDSR


def start(
    case: Forward, folder: str, how: Literal["eager", "channels_last", "compile"], output: str
) -> Take:
    """A call of the network, in inference mode; leaves its first result."""
    torch.set_num_threads(THREADS)
    network = TorchEDSR(SCALE, case.blocks, case.features, residual_scale=1.0, slope=0.0)
    with np.load(Path(folder) / "weights.npz") as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    network.requires_grad_(False).eval()
    for block in network.body[: case.blocks]:
        block.body[1] = torch.nn.ReLU(inplace=True)  # without the leak's autograd function
    layout = torch.contiguous_format if how == "eager" else torch.channels_last
    network.to(memory_format=layout)
    function = torch.compile(network) if how == "compile" else network

    def forward(low: Pixels) -> Pixels:
        with torch.inference_mode():
            high = function(torch.from_numpy(low).to(memory_format=layout))
            result: Pixels = high.contiguous().numpy()
            return result

    return case.calls(forward, output)
