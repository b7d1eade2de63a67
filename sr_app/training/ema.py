"""The moving average of the weights over the run (Polyak averaging), compiled with the step."""

from collections.abc import Sequence

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from sr_app.training.optimizer import twins


class WeightAverage(nn.Cell):
    """average <- d * average + (1 - d) * weight, with d = min(decay, (1 + t) / (10 + t)).

    The growing d lets the average forget the initial weights in a short run, too (the rule of
    TensorFlow's ExponentialMovingAverage); t counts the updates.

    Args:
        parameters: the weights to follow.
        decay: at least 0 and below 1; 0 makes the average equal to the weights.
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = ParameterTuple(parameters)
        self.averages = twins(parameters, "average")
        self.updates = Parameter(Tensor(0.0, ms.float32), name="average.t", requires_grad=False)
        self.decay = decay

    def construct(self) -> Tensor:
        """Follow once; returns the number of updates, to depend on."""
        updates = self.updates + 1
        ops.assign(self.updates, updates)
        decay = self.decay_at(updates)
        for i in range(len(self.parameters)):
            average = self.averages[i]
            ops.assign(average, average + (1 - decay) * (self.parameters[i] - average))
        return updates

    def decay_at(self, updates: Tensor) -> Tensor:
        """d at so many updates, this one counted; a float32 scalar."""
        return ops.minimum(self.decay * ops.ones_like(updates), (1 + updates) / (10 + updates))
