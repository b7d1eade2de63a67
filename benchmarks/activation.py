"""LeakyGradReLU next to nn.ReLU: python benchmarks/activation.py [--quick].

Alone on a tensor (16, 64, 48, 48), forward and forward with backward, in PyNative and under
`ms.jit`; and inside the whole training step of train_step.py at batch 4, in GRAPH_MODE. Turn about
in one process on two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import mindspore as ms
import numpy as np
import record
from case import Case, quick
from interleave import interleaved, timed, use_two_cores
from mindspore import Tensor, nn
from step_mindspore import run_config, stepper

from sr_app.nets.activation import activation
from sr_app.nets.description import ActivationName
from sr_app.training.loop import build

NAMES: tuple[ActivationName, ActivationName] = ("leaky_grad_relu", "relu")
Work = Callable[[], object]


class ForwardAndBackward(nn.Cell):
    """(x, dout) -> (y, dx) of a cell."""

    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, x: Tensor, dout: Tensor) -> tuple[Tensor, Tensor]:
        y, pull = ms.vjp(self.cell, x)
        return y, pull(dout)[0]


def main() -> None:
    """Measure, print, write."""
    given = record.arguments(__doc__).parse_args()
    use_two_cores()
    shape = (2, 8, 12, 12) if given.quick else (16, 64, 48, 48)
    case = quick(2) if given.quick else Case(batch=4)
    calls, steps, rounds = (2, 1, 2) if given.quick else (20, 4, 15)

    ms.set_context(mode=ms.PYNATIVE_MODE)
    figures = {}
    for jit in (False, True):
        place = "ms.jit" if jit else "PyNative"
        for what, make in (("forward", forward), ("forward and backward", both)):
            figures[f"{what}, {place}"] = compare(partial(make, shape, jit), calls, rounds)
    figures["training step, GRAPH_MODE"] = compare(partial(training_step, case), steps, rounds)

    head = ["median milliseconds", "LeakyGradReLU", "nn.ReLU", "ratio", "ratio of the best"]
    print("\n" + record.table(head, [row_of(what, figure) for what, figure in figures.items()]))
    settings = {"shape": shape, "calls": calls, "step": asdict(case), "steps": steps}
    record.write(given, {**settings, "rounds": rounds}, figures)


def compare(make: Callable[[ActivationName], Work], calls: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of one call with each activation, and the ratio; `make` makes what is called."""
    turns: dict[str, Callable[[], float]] = {}
    for name in NAMES:
        work = make(name)
        work()  # the first call compiles
        turns[name] = partial(timed, partial(repeat, work, calls))
    seconds = interleaved(turns, rounds)
    each = {
        name: {
            "best": 1000 * min(seconds[name]) / calls,
            "median": 1000 * float(np.median(seconds[name])) / calls,
        }
        for name in NAMES
    }
    leaky, plain = (each[name] for name in NAMES)
    return {"milliseconds": each, "ratio": {key: leaky[key] / plain[key] for key in leaky}}


def repeat(work: Work, calls: int) -> None:
    """Call so many times."""
    for _ in range(calls):
        work()


def forward(shape: tuple[int, ...], jit: bool, name: ActivationName) -> Work:
    """The activation alone."""
    x, _ = normal(shape)
    cell = compiled(activation(name, slope=0.01), jit)
    return lambda: cell(x).asnumpy()  # asnumpy waits for the value and copies nothing


def both(shape: tuple[int, ...], jit: bool, name: ActivationName) -> Work:
    """The activation and its gradient."""
    x, dout = normal(shape)
    cell = compiled(ForwardAndBackward(activation(name, slope=0.01)), jit)
    return lambda: [part.asnumpy() for part in cell(x, dout)]


def training_step(case: Case, name: ActivationName) -> Work:
    """One step of training with that activation (this sets GRAPH_MODE)."""
    return stepper(build(run_config(case, name)), case)


def compiled(cell: nn.Cell, jit: bool) -> nn.Cell:
    """The cell, or what `ms.jit` makes of it."""
    return ms.jit(cell) if jit else cell


def normal(shape: tuple[int, ...]) -> list[Tensor]:
    """Input and output gradient, normal: half of the values are below zero."""
    random = np.random.default_rng(0)
    return [Tensor(random.standard_normal(shape).astype(np.float32)) for _ in range(2)]


def row_of(what: str, figure: dict[str, Any]) -> list[str]:
    """The table's row."""
    medians = [figure["milliseconds"][name]["median"] for name in NAMES]
    ratio = figure["ratio"]
    return [
        what,
        *(f"{median:.2f}" for median in medians),
        f"{ratio['median']:.2f}",
        f"{ratio['best']:.2f}",
    ]


if __name__ == "__main__":
    main()
