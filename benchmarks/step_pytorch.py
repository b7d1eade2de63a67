"""The other side: the same network and step in PyTorch, each part by PyTorch's fastest operator."""

from __future__ import annotations

import math
import os

import numpy as np
import torch
from case import SCALE, Case
from interleave import THREADS, Take
from torch_edsr import TorchEDSR


def start(
    case: Case, weights_file: str, channels_last: bool = False, compiled: bool = False
) -> Take:
    """The step from the given weights, to be taken again and again."""
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        os.environ.pop(name, None)  # MindSpore's need alone (sr_app/__init__.py)
    torch.set_num_threads(THREADS)

    network = TorchEDSR(SCALE, case.blocks, case.features, residual_scale=1.0, slope=case.slope)
    with np.load(weights_file) as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network.to(memory_format=layout)
    low, high = (torch.from_numpy(array).to(memory_format=layout) for array in case.inputs())
    parameters = list(network.parameters())
    averages = [parameter.detach().clone() for parameter in parameters]
    adam = torch.optim.Adam(parameters, lr=case.learning_rate, fused=True)
    updates = 0
    forward = torch.compile(network) if compiled else network

    def once() -> float:
        nonlocal updates
        adam.zero_grad()
        value = torch.nn.functional.l1_loss(forward(low), high)
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, case.clip_norm)
        loss = float(value)
        if math.isfinite(loss + float(norm)):
            adam.step()
            updates += 1
            decay = min(case.average, (1 + updates) / (10 + updates))
            with torch.no_grad():
                torch._foreach_lerp_(averages, parameters, 1 - decay)
        return loss

    return lambda steps: [once() for _ in range(steps)]
