"""Adam (Kingma and Ba, 2015, algorithm 1), as a cell that is compiled with the step."""

from collections.abc import Sequence

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops


def twins(parameters: Sequence[Parameter], prefix: str, *, zero: bool = False) -> ParameterTuple:
    """Parameters of the same shapes, named `prefix.name`, with the same values or zeros."""
    values = [np.zeros(p.shape, np.float32) if zero else p.asnumpy().copy() for p in parameters]
    return ParameterTuple(
        [
            Parameter(Tensor(value), name=f"{prefix}.{p.name}", requires_grad=False)
            for p, value in zip(parameters, values, strict=True)
        ]
    )


class Adam(nn.Cell):
    """Adam with PyTorch's formula: epsilon is added after both bias corrections.

    MindSpore's nn.Adam adds it before (updates of tiny gradients differ by half),
    nn.AdamWeightDecay corrects no bias, and mint.optim.Adam does nothing in PyNative. Its fused
    kernel does compute PyTorch's formula when given epsilon * sqrt(1 - beta2^t) as its epsilon.

    Args:
        parameters: float32 tensors to update in place.
        betas, epsilon: as in the paper.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = ParameterTuple(parameters)
        self.first = twins(parameters, "adam.first", zero=True)
        self.second = twins(parameters, "adam.second", zero=True)
        self.power1 = Parameter(Tensor(1.0, ms.float32), name="adam.power1", requires_grad=False)
        self.power2 = Parameter(Tensor(1.0, ms.float32), name="adam.power2", requires_grad=False)
        self.beta1, self.beta2 = (Tensor(beta, ms.float32) for beta in betas)
        self.epsilon = epsilon
        self.update = ops.Adam()

    def construct(
        self, gradients: tuple[Tensor, ...], factor: Tensor, learning_rate: Tensor
    ) -> Tensor:
        """Update once, by factor * gradients; the others are float32 scalars.

        Returns beta1^t, to depend on.
        """
        power1, power2 = self.power1 * self.beta1, self.power2 * self.beta2  # beta^t
        ops.assign(self.power1, power1)
        ops.assign(self.power2, power2)
        epsilon = self.epsilon * ops.sqrt(1 - power2)
        for i in range(len(self.parameters)):
            self.update(
                self.parameters[i],
                self.first[i],
                self.second[i],
                power1,
                power2,
                learning_rate,
                self.beta1,
                self.beta2,
                epsilon,
                factor * gradients[i],
            )
        return power1
