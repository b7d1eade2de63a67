"""MindSpore's traps are handled at the package's import."""

import os
import subprocess
import sys

import pytest

import sr_app


def test_import_does_not_load_mindspore() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, sr_app; print('mindspore' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "False"


def test_numpy_2_is_refused_with_the_way_out() -> None:
    with pytest.raises(ImportError, match=r"below 2, found 2\.4\.6.*make setup"):
        sr_app._require_numpy_1("2.4.6")
    sr_app._require_numpy_1("1.26.4")


def test_convolution_is_not_on_the_slow_path() -> None:
    """oneDNN must not take its reference kernel, which is 80 times slower than its GEMM one."""
    code = (
        "import sr_app, numpy as np, mindspore as ms\n"
        "from sr_app.nets.layers import conv3x3\n"
        "conv3x3(8, 8)(ms.Tensor(np.ones((1, 8, 16, 16), np.float32))).asnumpy()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    kernels = [line for line in done.stdout.splitlines() if "exec,cpu,convolution" in line]
    assert kernels and not any("ref" in line.split(",")[5] for line in kernels), kernels
