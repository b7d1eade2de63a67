"""The library's functions, called as MindSpore calls them: wrong arguments, threads, processes."""

import subprocess
import sys
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


def test_a_forked_process_gives_the_same_results(library: object) -> None:
    """It has none of its parent's threads, so it must not wait for them."""
    code = """
import os, numpy as np, mindspore as ms
from sr_app.nets.layers import conv3x3, initialise
convolution = conv3x3(8, 8)
initialise(convolution, 1)
x = ms.Tensor(np.ones((2, 8, 32, 32), np.float32))
here = convolution(x).asnumpy().copy()
child = os.fork()
if child == 0:
    import ctypes
    from sr_app import kernels
    run = ctypes.CDLL(str(kernels.library("CPU"))).conv3x3
    arrays = [a.asnumpy().copy() for a in (x, convolution.weight, convolution.bias)]
    for _ in range(20):
        y = np.empty_like(here)
        every = [*arrays, y]
        rows = [(ctypes.c_int64 * a.ndim)(*a.shape) for a in every]
        status = run(4, (ctypes.c_void_p * 4)(*(a.ctypes.data for a in every)),
            (ctypes.c_int * 4)(*(a.ndim for a in every)),
            (ctypes.c_void_p * 4)(*(ctypes.addressof(r) for r in rows)),
            (ctypes.c_char_p * 4)(*[b"float32"] * 4), None, None)
    os._exit(status or not np.array_equal(y, here))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
