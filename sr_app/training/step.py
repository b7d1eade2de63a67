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
    The same holds for a loss over `limit`. Both numbers are the same on all ranks, and so all do
    alike.

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

    def _forward(self, low: Tensor, high: Tensor, scale: Tensor | None) -> Tensor:
        if scale is None:
            return self.loss(self.network(low), high)
        return scale * self.loss(self.network(low).astype(ms.float32), high)

    def construct(
        self,
        low: Tensor,
        high: Tensor,
        learning_rate: Tensor,
        limit: Tensor | None = None,
        scale: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """-> (loss, norm of the gradients before the clip), float32 scalars.

        `limit`: of the loss; `scale`: of the loss that is differentiated, a power of two, for
        float16. Without them there is none.
        """
        value, gradients = self.differentiate(low, high, scale)
        value, gradients = self.reduce(value, gradients)
        if scale is not None:
            value, gradients = value / scale, self.divide(gradients, scale)
        factor, norm = self.clip(gradients)
        wanted = ops.isfinite(value + norm)
        if limit is not None:
            wanted = ops.logical_and(wanted, value <= limit)
        updated = self.update(gradients, factor, learning_rate, wanted)
        return ops.depend(value, updated), norm

    def divide(self, gradients: tuple[Tensor, ...], scale: Tensor) -> tuple[Tensor, ...]:
        """Each gradient without the loss's scale; exact, since that is a power of two."""
        divided: tuple[Tensor, ...] = ()
        for gradient in gradients:
            divided += (gradient / scale,)
        return divided
