"""Our 3x3 convolution as a cell, in place of `nn.Conv2d`."""

from functools import cache
from pathlib import Path

from mindspore import Tensor, nn, ops

from sr_app.kernels.binding import NO_SECOND, operator


class Conv3x3(nn.Conv2d):
    """`nn.Conv2d` of 3x3, stride 1, zero padding 1, with bias, computed by our operators.

    (n, inputs, h, w) -> (n, outputs, h, w), float32, on the CPU; any sizes, known or dynamic;
    PyNative, `ms.jit` and GRAPH_MODE. Parameters, their names and first values are `nn.Conv2d`'s.
    Results are its own but for rounding (about twice a plain sum's, see `winograd.h`), and the same
    to the last bit from run to run. RuntimeError for other shapes and types. There is no second
    derivative.

    Args:
        inputs, outputs: channels.
        library: what `sr_app.kernels.choice` gives.
    """

    def __init__(self, inputs: int, outputs: int, library: Path) -> None:
        super().__init__(inputs, outputs, 3, pad_mode="pad", padding=1, has_bias=True)
        self.convolve = _operator(library)

    def construct(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.weight, self.bias)


@cache
def _operator(library: Path) -> ops.Custom:
    """One for all convolutions: it has no state."""
    backward_data = operator(library, "conv3x3_backward_data", ["dy", "weight"], ["dx"], _second)
    backward_weights = operator(
        library, "conv3x3_backward_weights", ["x", "dy"], ["dweight", "dbias"], _second
    )

    def gradients(
        x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, dout: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dweight, dbias = backward_weights(x, dout)
        return backward_data(dout, weight), dweight, dbias

    return operator(library, "conv3x3", ["x", "weight", "bias"], ["y"], gradients)


def _second(one: Tensor, other: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError(NO_SECOND)
