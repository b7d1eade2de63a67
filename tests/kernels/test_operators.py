"""The library's functions, called as MindSpore calls them: wrong arguments, threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sr_app import kernels

Array = NDArray[np.float32]
Launch = Callable[..., int]


INPUTS_AND_OUTPUTS = {
    "conv3x3": ("x weight bias", "y"),
    "conv3x3_backward_data": ("y weight", "x"),
    "conv3x3_backward_weights": ("x y", "weight bias"),
    "trunk": ("x weights biases settings", "x"),
    "trunk_fast": ("x weights biases settings", "x whole"),
    "trunk_low": ("x weights biases settings", "x inputs"),
    "trunk_backward": ("x whole weights biases settings", "x weights biases"),
    "upsampler": ("x stages stage_biases tail tail_bias", "high"),
    "upsampler_training": ("x stages stage_biases tail tail_bias", "high steps"),
    "upsampler_backward": ("high steps stages tail", "x stages stage_biases tail tail_bias"),
}
NAMES = list(INPUTS_AND_OUTPUTS)


def tensors(library: Path, name: str, n: int, c: int, h: int, w: int, o: int) -> list[Array]:
    """Inputs with values, outputs of nan; a trunk of 2 blocks, an upsampler of one stage of 2."""
    lanes = 16 if kernels.instruction_set(library) == "AVX-512" else 8
    padded = -(-c // lanes) * lanes
    shapes: dict[str, tuple[int, ...]] = {
        "x": (n, c, h, w),
        "y": (n, o, h, w),
        "weight": (o, c, 3, 3),
        "bias": (o,),
        "weights": (5, c, c, 3, 3),
        "biases": (5, c),
        "settings": (2,),
        "whole": (5, n, h, w, padded),
        "inputs": (3, n, h, w, padded),
        "stages": (1, 4 * c, c, 3, 3),
        "stage_biases": (1, 4 * c),
        "tail": (o, c, 3, 3),
        "tail_bias": (o,),
        "high": (n, o, 2 * h, 2 * w),
        "steps": (5, n, h, w, padded),
    }
    inputs, outputs = (names.split() for names in INPUTS_AND_OUTPUTS[name])
    random = np.random.default_rng(7)
    return [
        *(random.standard_normal(shapes[each], np.float32) for each in inputs),
        *(np.full(shapes[each], np.nan, np.float32) for each in outputs),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_give_a_status_and_say_which(
    library: Path, launch: Launch, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    right = tensors(library, name, 2, 3, 5, 7, 4)
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
def test_concurrent_calls_give_the_results_of_calls_in_turn(
    library: Path, launch: Launch, name: str
) -> None:
    cases = [(1, 3, 20, 20, 8), (2, 16, 32, 32, 16), (1, 8, 1, 500, 3), (3, 16, 24, 24, 32)]

    def result(case: tuple[int, ...]) -> list[Array]:
        arrays = tensors(library, name, *case)
        assert launch(name, arrays) == 0
        return arrays

    wanted = {case: result(case) for case in cases}
    work = cases * 25
    with ThreadPoolExecutor(8) as threads:
        for case, arrays in zip(work, threads.map(result, work), strict=True):
            for found, right in zip(arrays, wanted[case], strict=True):
                assert np.array_equal(found, right)
