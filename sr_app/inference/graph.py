"""A network as an ONNX graph, written from its description: no MindSpore and no tracing, so that
height and width stay free and nothing of one picture's size is baked in."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, checker, helper, numpy_helper

from sr_app.inference.engines import Part
from sr_app.nets.description import MEAN_VALUES, STAGES, EDSRConfig

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

    from sr_app.nets.weights import Arrays

OPSET, IR = 17, 9  # of 2022: any runtime of today reads them
INPUT, OUTPUT = "low", "high"


class _Writer:
    """Nodes one after the other; each method gives the name of its result."""

    def __init__(self, arrays: "Arrays") -> None:
        self.arrays = arrays
        self.nodes: list[NodeProto] = []
        self.constants = dict[str, NDArray[np.float32]]()

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        result = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result

    def constant(self, name: str, value: object) -> str:
        self.constants[name] = np.asarray(value, np.float32)
        return name

    def convolution(self, x: str, cell: str) -> str:
        names = [
            self.constant(f"{cell}.{kind}", self.arrays[f"{cell}.{kind}"])
            for kind in ("weight", "bias")
        ]
        return self.add("Conv", x, *names, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def graph(
    config: EDSRConfig, arrays: "Arrays", part: Part, size: tuple[int, int] | None = None
) -> "ModelProto":
    """The ONNX model of a part of the network; any batch, any (or the given) height and width.

    The leaky gradient is none of ONNX's business: what is computed is a plain ReLU.
    """
    writer = _Writer(arrays)
    if part == "trunk":
        inner = outer = config.features
        scale = 1
        result = _trunk(writer, config, INPUT)
    else:
        inner = outer = 3
        scale = config.scale
        mean = writer.constant("mean", MEAN_VALUES)
        x = writer.convolution(writer.add("Sub", INPUT, mean), "head")
        x = _trunk(writer, config, x)
        for stage, factor in enumerate(STAGES[config.scale]):
            x = writer.convolution(x, f"upsample.{stage}.conv")
            x = writer.add("DepthToSpace", x, blocksize=factor, mode="CRD")
        result = writer.add("Add", writer.convolution(x, "tail"), mean)
    writer.nodes.append(helper.make_node("Identity", [result], [OUTPUT]))
    low: tuple[int | str, int | str]
    high: tuple[int | str, int | str]
    low, high = ("height", "width"), (f"{scale}*height", f"{scale}*width")
    if size is not None:
        low, high = size, (scale * size[0], scale * size[1])
    elif scale == 1:
        high = low
    made = helper.make_model(
        helper.make_graph(
            writer.nodes,
            f"edsr_{part}",
            [_value(INPUT, inner, *low)],
            [_value(OUTPUT, outer, *high)],
            [numpy_helper.from_array(value, name) for name, value in writer.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="sr_app",
    )
    made.ir_version = IR
    checker.check_model(made)
    return made


def _trunk(writer: _Writer, config: EDSRConfig, head: str) -> str:
    x = head
    for block in range(config.blocks):
        cell = f"trunk.blocks.{block}"
        residual = writer.add("Relu", writer.convolution(x, f"{cell}.conv1"))
        residual = writer.convolution(residual, f"{cell}.conv2")
        if config.residual_scale != 1.0:
            factor = writer.constant("residual_scale", config.residual_scale)
            residual = writer.add("Mul", residual, factor)
        x = writer.add("Add", x, residual)
    return writer.add("Add", head, writer.convolution(x, "trunk.last"))


def _value(name: str, channels: int, height: int | str, width: int | str) -> "ValueInfoProto":
    shape: list[int | str | None] = ["batch", channels, height, width]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
