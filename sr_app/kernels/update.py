"""The update of all weights as one operator, and the sum of the squares of their gradients."""

from collections.abc import Sequence
from pathlib import Path

from mindspore import Tensor, nn

from sr_app.kernels.binding import NO_SECOND, operator


class SquareSum(nn.Cell):
    """The sum of the squares of all elements of some tensors, taken in float64: a float32 scalar.

    The same to the last bit from run to run. There is no derivative.
    """

    def __init__(self, library: Path, tensors: int) -> None:
        super().__init__()
        names = [f"x{number}" for number in range(tensors)]
        self.sum = operator(library, "square_sum", names, ["sum"], _refused)

    def construct(self, tensors: tuple[Tensor, ...]) -> Tensor:
        return self.sum(*tensors).reshape(())  # no operator of ours can give a scalar


class AdamUpdate(nn.Cell):
    """Adam and the moving average of the weights in one pass, in place.

    Args:
        weights, first, second, averages: parameters, float32, in the same order and shapes.
    """

    def __init__(
        self,
        library: Path,
        weights: Sequence[Tensor],
        first: Sequence[Tensor],
        second: Sequence[Tensor],
        averages: Sequence[Tensor],
    ) -> None:
        super().__init__(auto_prefix=False)
        self.weights, self.first, self.second, self.averages = weights, first, second, averages
        names = [
            f"{name}{number}"
            for name in ("weight", "first", "second", "average", "gradient")
            for number in range(len(weights))
        ]
        self.update = operator(library, "adam", [*names, "numbers"], ["done"], _refused)

    def construct(self, gradients: tuple[Tensor, ...], numbers: Tensor) -> Tensor:
        """`numbers`: the gradients' factor, rate, beta1, beta2, epsilon, decay, wanted (0 or 1).

        Rate and epsilon come corrected for both biases. Returns a 1, to depend on.
        """
        return self.update(
            *self.weights, *self.first, *self.second, *self.averages, *gradients, numbers
        )


def _refused(*tensors: Tensor) -> tuple[Tensor, ...]:
    raise NotImplementedError(NO_SECOND)
