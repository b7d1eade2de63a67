"""The training step: differentiate, average over the ranks, clip, update."""

from collections.abc import Callable
from typing import Literal

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app.parallel.clip import ClipByGlobalNorm
from sr_app.training.ema import WeightAverage
from sr_app.training.optimizer import Adam
from sr_app.training.update import Update

Loss = Callable[[Tensor, Tensor], Tensor]


def l1(output: Tensor, high: Tensor) -> Tensor:
    """Mean absolute difference (EDSR, section 3.4: better than L2, for PSNR too)."""
    return ops.abs(output - high).mean()


def charbonnier(output: Tensor, high: Tensor) -> Tensor:
    """Mean of sqrt(difference^2 + epsilon^2), epsilon 1e-3 of the range (LapSRN, section 3.3)."""
    return ops.sqrt(ops.square(output - high) + 0.255**2).mean()


LOSSES: dict[Literal["l1", "charbonnier"], Loss] = {"l1": l1, "charbonnier": charbonnier}


class TrainStep(nn.Cell):
    """One step as one cell, so that GRAPH_MODE compiles it whole (twice as fast as `ms.jit`).

    A step whose loss or gradients aren't finite changes nothing: not the weights, Adam's moments,
    its count, or the average. Both must be looked at: behind an infinite loss MindSpore's kernels
    (sign, ReLU) may well leave a gradient of 0. The caller sees it by the two returned numbers.

    Args:
        network: (n, 3, h, w) -> (n, 3, scale * h, scale * w).
        loss: (output, high) -> scalar.
        reduce: (loss, gradients) -> their means over the ranks that see other pictures.
        optimizer, clip, average: their parameters must be the network's.
    """

    def __init__(
        self,
        network: nn.Cell,
        loss: Loss,
        reduce: nn.Cell,
        optimizer: Adam,
        clip: ClipByGlobalNorm,
        average: WeightAverage,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss = loss
        self.reduce = reduce
        self.optimizer = optimizer
        self.clip = clip
        self.average = average
        self.update = Update(optimizer, average)
        self.differentiate = ms.value_and_grad(self._forward, None, optimizer.parameters)

    def _forward(self, low: Tensor, high: Tensor) -> Tensor:
        return self.loss(self.network(low), high)

    def construct(self, low: Tensor, high: Tensor, learning_rate: Tensor) -> tuple[Tensor, Tensor]:
        """-> (loss, norm of the gradients before the clip), float32 scalars."""
        value, gradients = self.differentiate(low, high)
        value, gradients = self.reduce(value, gradients)
        factor, norm = self.clip(gradients)
        updated = self.update(gradients, factor, learning_rate, ops.isfinite(value + norm))
        return ops.depend(value, updated), norm
