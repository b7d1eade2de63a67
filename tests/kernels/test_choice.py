"""Which convolution is used, what is told, and which instruction set oneDNN is left."""

import os
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest

from sr_app import kernels
from sr_app.errors import ConfigError

CODE = """
import os, sr_app
from sr_app.nets.layers import conv3x3
import mindspore as ms, numpy as np
convolution = conv3x3(2, 2)
convolution(ms.Tensor(np.ones((1, 2, 4, 4), np.float32))).asnumpy()
conv3x3(2, 2)
print(type(convolution).__name__, os.environ.get("ONEDNN_MAX_CPU_ISA"))
"""


def in_a_fresh_process(**environment: str) -> tuple[str, str]:
    """(the kind of convolution and ONEDNN_MAX_CPU_ISA, what was logged)."""
    ours = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "SR_KERNELS")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip(), done.stderr


def test_our_operators_leave_the_instruction_set_alone(library: Path) -> None:
    assert in_a_fresh_process() == ("Conv3x3 None", "")


def test_mindspores_own_threads_are_held_to_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(ms.device_context.cpu.op_tuning, "threads_num", told.append)
    monkeypatch.setenv("SR_THREADS", "3")
    kernels._hold_mindspore()
    assert told == [3]


def test_sr_kernels_off_gives_mindspores_held_to_avx2() -> None:
    assert in_a_fresh_process(SR_KERNELS="off") == ("Conv2d AVX2", "")


def test_without_a_compiler_mindspores_is_used_and_one_line_says_so(tmp_path: Path) -> None:
    found, told = in_a_fresh_process(PATH=str(tmp_path), CXX="")
    assert found == "Conv2d AVX2"
    (line,) = [line for line in told.splitlines() if "convolution" in line]  # once for all layers
    assert line.startswith("MindSpore's own convolution is used, which is slower: there is no C++")
    assert "apt install g++" in line


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_a_users_own_instruction_set_is_kept(name: str) -> None:
    found, _ = in_a_fresh_process(SR_KERNELS="off", **{name: "SSE41"})
    assert found == ("Conv2d SSE41" if name == "ONEDNN_MAX_CPU_ISA" else "Conv2d None")


def test_another_device_uses_mindspores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SR_KERNELS", raising=False)
    assert kernels.choice.__wrapped__("Ascend").library is None


def test_a_library_that_can_not_be_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SR_KERNELS", raising=False)
    monkeypatch.setattr(kernels, "built", lambda: tmp_path / "nothing.so")
    assert "nothing.so can't be loaded" in kernels.choice.__wrapped__("CPU").reason


def test_a_wrong_sr_kernels_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SR_KERNELS", "no")
    with pytest.raises(ConfigError, match=r"SR_KERNELS is 'no': it can be on .* or off"):
        kernels.choice.__wrapped__("CPU")
