"""The library's functions, called as MindSpore calls them: wrong arguments, threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float32]
Launch = Callable[..., int]


def tensors(name: str, n: int, c: int, h: int, w: int, o: int) -> list[Array]:
    """Inputs with values, outputs of nan."""
    shapes = {"x": (n, c, h, w), "y": (n, o, h, w), "w": (o, c, 3, 3), "b": (o,)}
    of = {"conv3x3": "xwb y", "conv3x3_backward_data": "yw x", "conv3x3_backward_weights": "xy wb"}
    inputs, outputs = of[name].split()
    random = np.random.default_rng(7)
    return [
        *(random.standard_normal(shapes[each], np.float32) for each in inputs),
        *(np.full(shapes[each], np.nan, np.float32) for each in outputs),
    ]


NAMES = ["conv3x3", "conv3x3_backward_data", "conv3x3_backward_weights"]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_give_a_status_and_say_which(
    launch: Launch, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    right = tensors(name, 2, 3, 5, 7, 4)
    shapes = [array.shape for array in right]
    assert launch(name, right) == 0

    assert launch(name, right[:-1]) == 1
    assert "tensors, needed are" in capfd.readouterr().err
    for place in range(len(right)):
        types = ["float16" if k == place else "float32" for k in range(len(right))]
        assert launch(name, right, types=types) == 1
        assert "is not float32" in capfd.readouterr().err
        for wrong in [(), (1,), (2, 3, 5), (2, 3, 5, 7, 1), (0, 3, 5, 7), (-1, 3, 5, 7), (-2,)]:
            given = [wrong if k == place else shape for k, shape in enumerate(shapes)]
            assert launch(name, right, shapes=given) == 1
            assert f"{name}: " in capfd.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_concurrent_calls_give_the_results_of_calls_in_turn(launch: Launch, name: str) -> None:
    cases = [(1, 3, 20, 20, 8), (2, 16, 32, 32, 16), (1, 8, 1, 500, 3), (3, 16, 24, 24, 32)]

    def result(case: tuple[int, ...]) -> list[Array]:
        arrays = tensors(name, *case)
        assert launch(name, arrays) == 0
        return arrays

    wanted = {case: result(case) for case in cases}
    work = cases * 25
    with ThreadPoolExecutor(8) as threads:
        for case, arrays in zip(work, threads.map(result, work), strict=True):
            for found, right in zip(arrays, wanted[case], strict=True):
                assert np.array_equal(found, right)
