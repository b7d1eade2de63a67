"""Our side: the step of `sr_app`, as a run in GRAPH_MODE builds it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
from case import SCALE, Case
from interleave import Take
from mindspore import Tensor

from sr_app.kernels.fused import Memory
from sr_app.nets.description import ActivationName, EDSRConfig, torch_names
from sr_app.nets.weights import Arrays, gather
from sr_app.training.config import BatchConfig, OptimizerConfig, RunConfig
from sr_app.training.loop import build
from sr_app.training.step import TrainStep


def start(case: Case, weights_file: str, kernels: str = "on", memory: Memory = "fast") -> Take:
    """The step, to be taken again and again; leaves its first weights, named for PyTorch's side.

    With `kernels` "off" by MindSpore's own operators.
    """
    os.environ["SR_KERNELS"] = kernels
    config = replace(run_config(case), memory=memory)
    step = build(config)
    leave_weights(config.network, gather(step.network), Path(weights_file))
    once = stepper(step, case)
    return lambda steps: [once() for _ in range(steps)]


def leave_weights(config: EDSRConfig, arrays: Arrays, file: Path) -> None:
    """Write weights with PyTorch's names."""
    torch_name = torch_names(config)
    named = {}
    for name, array in arrays.items():
        cell, _, kind = name.rpartition(".")
        named[f"{torch_name[cell]}.{kind}"] = array
    np.savez(file, **named)


def run_config(case: Case, activation: ActivationName = "leaky_grad_relu") -> RunConfig:
    """The settings of a run that takes this step."""
    return RunConfig(
        average=case.average,
        network=EDSRConfig(
            scale=SCALE,
            blocks=case.blocks,
            features=case.features,
            activation=activation,
            slope=case.slope,
        ),
        batch=BatchConfig(size=case.batch, patch=case.patch),
        optimizer=OptimizerConfig(learning_rate=case.learning_rate, clip_norm=case.clip_norm),
    )


def stepper(step: TrainStep, case: Case) -> Callable[[], float]:
    """Take one step, wait for loss and norm as the loop does, return the loss."""
    low, high = (Tensor(array) for array in case.inputs())
    rate = Tensor(case.learning_rate, ms.float32)

    def once() -> float:
        value, norm = step(low, high, rate)
        loss, _ = float(value.asnumpy()), float(norm.asnumpy())
        return loss

    return once
