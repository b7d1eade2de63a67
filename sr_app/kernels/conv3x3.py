"""Our 3x3 convolution as a cell, in place of `nn.Conv2d`."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mindspore import Tensor, nn, ops
from mindspore.ops import CustomRegOp, DataType


class Conv3x3(nn.Conv2d):
    """`nn.Conv2d` of 3x3, stride 1, zero padding 1, with bias, computed by our operators.

    (n, inputs, h, w) -> (n, outputs, h, w), float32, on the CPU; any sizes, known or dynamic;
    PyNative, `ms.jit` and GRAPH_MODE. Parameters, their names and first values are `nn.Conv2d`'s.
    Results are its own but for rounding (sums are taken in another order), and the same to the last
    bit from run to run. RuntimeError for other shapes and types. There is no second derivative.

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
    backward_data = _custom(library, "conv3x3_backward_data", ["dy", "weight"], ["dx"], _second)
    backward_weights = _custom(
        library, "conv3x3_backward_weights", ["x", "dy"], ["dweight", "dbias"], _second
    )

    def gradients(
        x: Tensor, weight: Tensor, bias: Tensor, out: Tensor, dout: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dweight, dbias = backward_weights(x, dout)
        return backward_data(dout, weight), dweight, dbias

    return _custom(library, "conv3x3", ["x", "weight", "bias"], ["y"], gradients)


def _second(one: Tensor, other: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("conv3x3 has no second derivative; with SR_KERNELS=off there is one")


def _custom(
    library: Path, name: str, inputs: Sequence[str], outputs: Sequence[str], bprop: object = None
) -> ops.Custom:
    """Shapes and types are inferred in C++: in Python they can't be dynamic."""
    registration = CustomRegOp(name)
    for place, tensor in enumerate(inputs):
        registration.input(place, tensor)
    for place, tensor in enumerate(outputs):
        registration.output(place, tensor)
    registration.dtype_format(*[DataType.F32_Default] * (len(inputs) + len(outputs)))
    return ops.Custom(
        f"{library}:{name}",
        func_type="aot",
        bprop=bprop,
        reg_info=registration.target("CPU").get_op_info(),
    )
