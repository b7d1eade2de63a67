"""What a step does with its gradients: Adam, then the weights' average; or nothing at all."""

import mindspore as ms
from mindspore import Tensor, nn, ops

from sr_app import kernels
from sr_app.kernels.update import AdamUpdate
from sr_app.training.ema import WeightAverage
from sr_app.training.optimizer import Adam


class Update(nn.Cell):
    """Update weights and average, in one pass by our operator where it can be had.

    The state is that of `adam` and `average` either way, and so are the numbers, to rounding.
    """

    def __init__(self, adam: Adam, average: WeightAverage) -> None:
        super().__init__(auto_prefix=False)
        self.adam = adam
        self.average = average
        library = kernels.library()
        self.fused = None
        if library is not None:
            self.fused = AdamUpdate(
                library, adam.parameters, adam.first, adam.second, average.averages
            )

    def construct(
        self, gradients: tuple[Tensor, ...], factor: Tensor, learning_rate: Tensor, wanted: Tensor
    ) -> Tensor:
        """By factor * gradients, where `wanted` (a bool); else nothing changes.

        Factor and rate are float32 scalars. Returns a scalar, to depend on.
        """
        if self.fused is not None:
            numbers = self._numbers(factor, learning_rate, wanted)
            return self._counted(self.fused(gradients, numbers), wanted)
        done = factor
        if wanted:
            updated = self.adam(gradients, factor, learning_rate)
            done = ops.depend(done, ops.depend(self.average(), updated))
        return done

    def _numbers(self, factor: Tensor, learning_rate: Tensor, wanted: Tensor) -> Tensor:
        """What `AdamUpdate` wants to be told."""
        adam, average = self.adam, self.average
        correction = ops.sqrt(1 - adam.power2 * adam.beta2)  # 1 - beta2^t
        return ops.stack(
            [
                factor,
                learning_rate * correction / (1 - adam.power1 * adam.beta1),
                adam.beta1,
                adam.beta2,
                adam.epsilon * correction,
                average.decay_at(average.updates + 1),
                wanted.astype(ms.float32),
            ]
        )

    def _counted(self, done: Tensor, wanted: Tensor) -> Tensor:
        """Count the update, where it was wanted."""
        adam, average = self.adam, self.average
        ops.assign(adam.power1, ops.select(wanted, adam.power1 * adam.beta1, adam.power1))
        ops.assign(adam.power2, ops.select(wanted, adam.power2 * adam.beta2, adam.power2))
        ops.assign(average.updates, ops.select(wanted, average.updates + 1, average.updates))
        return done
