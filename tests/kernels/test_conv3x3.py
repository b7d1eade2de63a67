"""Our convolution against MindSpore's: values, gradients, dynamic sizes, wrong inputs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from numpy.typing import NDArray

from sr_app.kernels.conv3x3 import Conv3x3
from sr_app.nets.layers import conv3x3
from tests.kernels.cells import Pull, SecondDerivative

Array = NDArray[np.float32]
Mode = Literal["PyNative", "jit", "GRAPH_MODE"]
MODES: tuple[Mode, ...] = ("PyNative", "jit", "GRAPH_MODE")

SHAPES = [
    # n, inputs, h, w, outputs
    (1, 1, 1, 1, 1),
    (2, 3, 5, 7, 64),
    (1, 64, 24, 20, 3),
    (4, 8, 13, 17, 32),
    (1, 3, 1, 4096, 8),
    (1, 5, 4096, 1, 2),
    (3, 11, 31, 29, 13),
    (2, 16, 16, 16, 64),
]

TOLERANCE = 2e-5
"""Of the largest value: sums of up to 4096 products are taken in another order, and float32 keeps
6e-8 of each; a wrong tap, border or bias shows at 1e-2 and more."""


@pytest.fixture(autouse=True)
def pynative_afterwards() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def pair(library: Path, inputs: int, outputs: int) -> tuple[Conv3x3, nn.Conv2d]:
    """Ours and MindSpore's, with the same weights."""
    ours = Conv3x3(inputs, outputs, library)
    theirs = nn.Conv2d(inputs, outputs, 3, pad_mode="pad", padding=1, has_bias=True)
    for one, other in zip(ours.get_parameters(), theirs.get_parameters(), strict=True):
        one.copy_(normal(*one.shape))
        other.copy_(normal(*other.shape))
    return ours, theirs


def normal(*shape: int) -> Tensor:
    values = np.random.default_rng(shape).standard_normal(shape)
    return Tensor(values.astype(np.float32))


def pulled(convolution: nn.Conv2d, x: Tensor, dy: Tensor, mode: Mode) -> list[Array]:
    pull = Pull(convolution)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "GRAPH_MODE" else ms.PYNATIVE_MODE)
    results = (ms.jit(pull) if mode == "jit" else pull)(x, dy)
    return [result.asnumpy().copy() for result in results]


def require_close(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * abs(wanted).max())


def test_the_networks_convolution_is_ours(library: Path) -> None:
    assert isinstance(conv3x3(3, 8), Conv3x3)


def test_parameters_are_those_of_mindspores_convolution(library: Path) -> None:
    ours, theirs = pair(library, 3, 8)
    assert {n: p.shape for n, p in ours.parameters_dict().items()} == {
        n: p.shape for n, p in theirs.parameters_dict().items()
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_mindspores_convolution(
    library: Path, shape: tuple[int, ...], mode: Mode
) -> None:
    n, inputs, h, w, outputs = shape
    ours, theirs = pair(library, inputs, outputs)
    x, dy = normal(n, inputs, h, w), normal(n, outputs, h, w)
    results = pulled(ours, x, dy, mode)
    for found, wanted in zip(results, pulled(theirs, x, dy, "PyNative"), strict=True):
        require_close(found, wanted)
    assert all(abs(result).max() > 0 for result in results)


def test_gradients_are_those_of_finite_differences(library: Path) -> None:
    """The convolution is linear in x, weight and bias each, so differences with a step of one are
    exact but for rounding: 1e-5 of a sum of about a thousand products of size one."""
    convolution, _ = pair(library, 5, 7)
    x, dy = normal(2, 5, 11, 9), normal(2, 7, 11, 9)

    def product(place: Tensor, step: Tensor) -> float:
        values = place.asnumpy().copy()
        place.copy_(Tensor(values + step.asnumpy()))
        result = float((convolution(x) * dy).sum().asnumpy())
        place.copy_(Tensor(values))
        return result

    _, *gradients = pulled(convolution, x, dy, "PyNative")
    for place, gradient in zip((x, convolution.weight, convolution.bias), gradients, strict=True):
        step = normal(*place.shape)
        difference = (product(place, step) - product(place, -step)) / 2
        assert float((gradient * step.asnumpy()).sum()) == pytest.approx(difference, abs=1e-2)
        assert abs(difference) > 1


def test_results_are_the_same_to_the_last_bit_from_call_to_call(library: Path) -> None:
    convolution, _ = pair(library, 16, 16)
    x, dy = normal(4, 16, 24, 24), normal(4, 16, 24, 24)
    first = pulled(convolution, x, dy, "PyNative")
    for _ in range(10):
        for again, result in zip(pulled(convolution, x, dy, "PyNative"), first, strict=True):
            assert np.array_equal(again, result)


def test_height_and_width_may_change_under_one_compilation(library: Path) -> None:
    ours, theirs = pair(library, 3, 6)

    @ms.enable_dynamic(low=Tensor(shape=[1, 3, None, None], dtype=ms.float32))
    @ms.jit
    def compiled(low: Tensor) -> Tensor:
        return ours(low)

    for size in [(4, 6), (9, 2), (1, 1), (64, 48), (4, 6)]:
        low = normal(1, 3, *size)
        require_close(compiled(low).asnumpy(), theirs(low).asnumpy())


def test_gradients_may_have_dynamic_sizes(library: Path) -> None:
    ours, theirs = pair(library, 3, 6)
    pull = Pull(ours)

    @ms.enable_dynamic(
        x=Tensor(shape=[None, 3, None, None], dtype=ms.float32),
        dy=Tensor(shape=[None, 6, None, None], dtype=ms.float32),
    )
    @ms.jit
    def compiled(x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return pull(x, dy)

    for n, h, w in [(1, 4, 6), (3, 9, 2), (2, 16, 16)]:
        x, dy = normal(n, 3, h, w), normal(n, 6, h, w)
        for found, wanted in zip(compiled(x, dy), pulled(theirs, x, dy, "PyNative"), strict=True):
            require_close(found.asnumpy(), wanted)


def test_more_sizes_than_are_remembered_give_right_results(library: Path) -> None:
    ours, theirs = pair(library, 2, 3)
    for width in [*range(1, 80), *range(1, 5)]:
        low = normal(1, 2, 3, width)
        require_close(ours(low).asnumpy(), theirs(low).asnumpy())


@pytest.mark.parametrize("jit", [False, True])
def test_a_change_of_the_weights_is_seen_by_the_next_call(library: Path, jit: bool) -> None:
    ours, theirs = pair(library, 8, 8)
    x = normal(1, 8, 12, 12)
    call: Callable[[Tensor], Tensor] = ms.jit(ours) if jit else ours
    require_close(call(x).asnumpy(), theirs(x).asnumpy())
    for convolution in (ours, theirs):
        convolution.weight.copy_(convolution.weight * 2 + 1)
        convolution.bias.copy_(convolution.bias - 3)
    require_close(call(x).asnumpy(), theirs(x).asnumpy())


WRONG = [
    (np.ones((1, 4, 5, 5), np.float32), r"weight has the shape \(6, 3, 3, 3\), needed is oc33"),
    (np.ones((3, 5, 5), np.float32), r"x has the shape \(3, 5, 5\), needed is nchw"),
    (np.ones((1, 3, 5, 5, 1), np.float32), r"x has the shape \(1, 3, 5, 5, 1\), needed is nchw"),
    (np.ones((1, 3, 5, 5), np.float16), "x is not float32"),
    (np.ones((1, 3, 5, 5), np.float64), "x is not float32"),
    (np.ones((1, 3, 5, 5), np.int32), "x is not float32"),
]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("x", "message"), WRONG)
def test_a_wrong_input_is_an_error_that_names_it(
    library: Path,
    x: NDArray[np.generic],
    message: str,
    jit: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # MindSpore writes its analysis of a failed compilation here
    convolution = Conv3x3(3, 6, library)
    with pytest.raises(RuntimeError, match=message):
        (ms.jit(convolution) if jit else convolution)(Tensor(x)).asnumpy()


@pytest.mark.parametrize("jit", [False, True])
def test_the_second_derivative_is_refused(
    library: Path, jit: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cell = SecondDerivative(Conv3x3(3, 3, library))
    with pytest.raises(NotImplementedError, match="no second derivative; with SR_KERNELS=off"):
        (ms.jit(cell) if jit else cell)(normal(1, 3, 4, 4)).asnumpy()
