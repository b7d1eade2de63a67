"""LeakyGradReLU: ReLU forward, leaky ReLU's gradient, in every mode."""

from collections.abc import Callable, Iterator

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from sr_app.nets.activation import LeakyGradReLU, activation

INPUT = [-2.0, -0.0, 0.0, 1e-30, 3.0, np.inf, -np.inf, np.nan]
OUTPUT = [0.0, 0.0, 0.0, 1e-30, 3.0, np.inf, 0.0, 0.0]  # MindSpore's ReLU on CPU: nan gives 0
ON = [0, 0, 0, 1, 1, 1, 0, 0]
SLOPE = 0.01


@pytest.fixture(params=["pynative", "jit", "graph"])
def compiled(request: pytest.FixtureRequest) -> Iterator[Callable[[nn.Cell], nn.Cell]]:
    """Turns a cell into what is run in that mode."""
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE)
    yield ms.jit if request.param == "jit" else lambda cell: cell
    ms.set_context(mode=before)


class Gradient(nn.Cell):
    """(x, dout) -> dx of a cell."""

    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell
        self.gradient = ops.GradOperation(sens_param=True)

    def construct(self, x: Tensor, dout: Tensor) -> Tensor:
        return self.gradient(self.cell)(x, dout)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_forward_is_relu(compiled: Callable[[nn.Cell], nn.Cell], dtype: type) -> None:
    x = Tensor(np.array(INPUT, dtype))
    y = compiled(LeakyGradReLU(SLOPE))(x).asnumpy()
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, np.array(OUTPUT, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_backward_leaks_where_x_is_not_above_zero(
    compiled: Callable[[nn.Cell], nn.Cell], dtype: type
) -> None:
    """dout, or dout times the slope, to the last bit of a rounded product (1e-3 in float16)."""
    x, dout = np.array(INPUT, dtype), np.arange(1, 9).astype(dtype)
    on = np.array(ON, bool) & (x > 0)  # 1e-30 is 0 in float16
    dx = compiled(Gradient(LeakyGradReLU(SLOPE)))(Tensor(x), Tensor(dout)).asnumpy()
    assert dx.dtype == dtype
    expected = np.where(on, dout, dout * dtype(SLOPE))
    np.testing.assert_allclose(dx, expected, rtol=1e-6 if dtype is np.float32 else 1e-3)


def test_second_order_is_that_of_the_leaky_line(
    compiled: Callable[[nn.Cell], nn.Cell],
) -> None:
    """For f = sum(act(x)^2): df/dx = 2 act(x) m with m = 1 or the slope, so d2f/dx2 = 2 m^2."""

    class Squared(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.act = LeakyGradReLU(SLOPE)

        def construct(self, x: Tensor) -> Tensor:
            return ops.square(self.act(x)).sum()

    class Second(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.second = ms.grad(ms.grad(Squared()))

        def construct(self, x: Tensor) -> Tensor:
            return self.second(x)

    x = np.array([-2.0, 0.0, 0.5, 3.0], np.float32)
    m = np.where(x > 0, 1, SLOPE)
    got = compiled(Second())(Tensor(x)).asnumpy()
    np.testing.assert_allclose(got, 2 * m**2, rtol=1e-5)


def test_activations_are_chosen_by_name() -> None:
    assert isinstance(activation("leaky_grad_relu", 0.05), LeakyGradReLU)
    assert activation("leaky_grad_relu", 0.05).slope == 0.05
    assert isinstance(activation("relu", 0.05), nn.ReLU)


def test_a_negative_slope_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        LeakyGradReLU(-0.1)
