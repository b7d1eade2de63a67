"""MindSpore's traps are handled at the package's import."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sr_app
from sr_app.errors import PictureError


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


@pytest.mark.parametrize("shape", [(5, 6), (5, 6, 1), (5, 6, 3), (5, 6, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_an_array_is_enlarged_in_one_line(shape: tuple[int, ...], dtype: type) -> None:
    large = sr_app.upscale(np.ones(shape, dtype), scale=1.5)
    assert large.dtype == dtype
    assert large.shape == (8, 9, *shape[2:])


def test_a_file_is_enlarged_in_one_line_as_the_command_does(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    frames = [Image.new("RGB", (6, 5), color) for color in ("red", "blue")]
    frames[0].save(path)
    picture = sr_app.upscale(path, width=9)
    assert picture.pixels.shape == (8, 9, 3)
    assert sr_app.upscale(picture).pixels.shape == (16, 18, 3)
    assert sr_app.upscale(path, tmp_path / "b.jpg", quality=50) == tmp_path / "b.jpg"
    assert sr_app.upscale(picture.pixels, tmp_path / "c.png", tile=16) == tmp_path / "c.png"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.raises(PictureError, match="2 frames"):
        sr_app.upscale(path)
    sr_app.upscale(str(path), tmp_path / "d.png")
    for name, frames_found, size in (
        ("b.jpg", 1, (12, 10)),
        ("c.png", 1, (18, 16)),
        ("d.png", 2, (12, 10)),
    ):
        with Image.open(tmp_path / name) as image:
            assert (getattr(image, "n_frames", 1), image.size) == (frames_found, size)


def test_mindspores_convolution_is_not_on_the_slow_path() -> None:
    """oneDNN must not take its reference kernel, which is 80 times slower than its GEMM one."""
    code = (
        "import sr_app, numpy as np, mindspore as ms\n"
        "from sr_app.nets.layers import conv3x3\n"
        "conv3x3(8, 8)(ms.Tensor(np.ones((1, 8, 16, 16), np.float32))).asnumpy()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SR_KERNELS": "off", "ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    kernels = [line for line in done.stdout.splitlines() if "exec,cpu,convolution" in line]
    assert kernels and not any("ref" in line.split(",")[5] for line in kernels), kernels
