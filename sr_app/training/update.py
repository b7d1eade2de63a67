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
        library = kernels.choice(ms.get_context("device_target")).library
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
            return self._in_one_pass(gradients, factor, learning_rate, wanted)
        done = factor
        if wanted:
            updated = self.adam(gradients, factor, learning_rate)
            done = ops.depend(done, ops.depend(self.average(), updated))
        return done

    def _in_one_pass(
        self, gradients: tuple[Tensor, ...], factor: Tensor, learning_rate: Tensor, wanted: Tensor
    ) -> Tensor:
        adam, average = self.adam, self.average
        power1, power2 = adam.power1 * adam.beta1, adam.power2 * adam.beta2  # beta^t
        updates = average.updates + 1
        correction = ops.sqrt(1 - power2)
        numbers = [
            factor,
            learning_rate * correction / (1 - power1),
            adam.beta1,
            adam.beta2,
            adam.epsilon * correction,
            average.decay_at(updates),
            wanted.astype(ms.float32),
        ]
        done = self.fused(gradients, ops.stack(numbers))
        ops.assign(adam.power1, ops.select(wanted, power1, adam.power1))
        ops.assign(adam.power2, ops.select(wanted, power2, adam.power2))
        ops.assign(average.updates, ops.select(wanted, updates, average.updates))
        return done
