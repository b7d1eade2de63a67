"""What is differentiated in the tests of convolutions and of the fused operators."""

import mindspore as ms
from mindspore import Tensor, nn, ops


class Pull(nn.Cell):
    """y = network(x), and the gradients of sum(y * dy) with respect to x and all weights."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.differentiate = ms.value_and_grad(
            self.product, 0, network.trainable_params(), has_aux=True
        )

    def product(self, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        y = self.network(x)
        return ops.sum(y * dy), y

    def construct(self, x: Tensor, dy: Tensor) -> tuple[Tensor, ...]:
        (_, y), (dx, dweights) = self.differentiate(x, dy)
        return (y, dx, *dweights)


class SecondDerivative(nn.Cell):
    """d(dy/dx squared)/dx."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network
        self.first = ms.grad(self.square)
        self.second = ms.grad(self.square_of_first)

    def square(self, x: Tensor) -> Tensor:
        return ops.square(self.network(x)).sum()

    def square_of_first(self, x: Tensor) -> Tensor:
        return ops.square(self.first(x)).sum()

    def construct(self, x: Tensor) -> Tensor:
        return self.second(x)
