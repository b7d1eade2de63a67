"""Our operators as MindSpore's: what it must be told of each."""

from collections.abc import Sequence
from pathlib import Path

from mindspore import ops
from mindspore.ops import CustomRegOp, DataType

NO_SECOND = "our operators have no second derivative; with SR_KERNELS=off there is one"


def operator(
    library: Path, name: str, inputs: Sequence[str], outputs: Sequence[str], bprop: object
) -> ops.Custom:
    """The operator `name` of `operators.cc`, float32, on the CPU.

    `bprop(*inputs, out, dout)` gives the gradients of the inputs (MindSpore's compiler wants each
    of them by name). Shapes and types are inferred in C++: in Python they can't be dynamic.
    """
    registration = CustomRegOp(f"{name}_{len(inputs)}")  # MindSpore keeps one of each name
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
