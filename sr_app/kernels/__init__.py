"""CPU operators of our own in C++: whether they are used, and the library that holds them.

`conv3x3.cc` hands MindSpore's convolution to MindSpore's own oneDNN in the layouts that oneDNN
prefers; `build.py` compiles it, `conv3x3.py` makes a cell of it. Where that can't be done
MindSpore's operators take over, and one line says why. `SR_KERNELS=off` turns ours off.
"""

import ctypes
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sr_app import threads
from sr_app.errors import ConfigError
from sr_app.kernels.build import UnavailableError, built, onednn_file

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The library of our operators, ready for use, or None and why."""

    library: Path | None
    reason: str = ""


@cache
def choice(device: str) -> Choice:
    """Whether our operators are used on MindSpore's device (CPU, GPU, Ascend).

    Where they aren't, MindSpore's convolution is held to AVX2: on AVX-512 processors it is 80 times
    too slow otherwise (and ours half as fast with it). So this must come before the first
    convolution. Set ONEDNN_MAX_CPU_ISA to choose otherwise.
    Decided once, told in one line; raises ConfigError when SR_KERNELS or SR_THREADS is not what it
    can be.
    """
    wanted = os.environ.get("SR_KERNELS", "on")
    if wanted not in ("on", "off"):
        raise ConfigError(f"SR_KERNELS is {wanted!r}: it can be on (or not set) or off")
    if wanted == "off":
        return _mindspores("SR_KERNELS is off", logging.INFO)
    if device != "CPU":
        return _mindspores(f"the device is {device}", logging.INFO)
    try:
        return Choice(_started(built()))
    except UnavailableError as error:
        return _mindspores(str(error), logging.WARNING)


def instruction_set() -> str:
    """What MindSpore's oneDNN may use of the processor, in its words ("avx2"); "" if unknown."""
    try:
        onednn = ctypes.CDLL(str(onednn_file()))
    except (OSError, UnavailableError):
        return ""
    onednn.dnnl_cpu_isa2str.restype = ctypes.c_char_p
    name: bytes = onednn.dnnl_cpu_isa2str(onednn.dnnl_get_effective_cpu_isa())
    return name.decode().removeprefix("cpu_isa_")


def _mindspores(reason: str, level: int) -> Choice:
    _log.log(level, "MindSpore's own convolution is used, which is slower: %s", reason)
    if "DNNL_MAX_CPU_ISA" not in os.environ:  # oneDNN's other name for the same setting
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    return Choice(None, reason)


def _started(path: Path) -> Path:
    try:
        start = ctypes.CDLL(str(path)).conv3x3_start
    except (OSError, AttributeError) as error:
        raise UnavailableError(f"{path} can't be loaded: {error}") from error
    start.argtypes, start.restype = [ctypes.c_int], ctypes.c_char_p
    trouble = start(threads.count())
    if trouble is not None:
        raise UnavailableError(trouble.decode())
    return path
