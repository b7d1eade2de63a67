"""CPU operators of our own in C++: whether they are used, and the library that holds them.

`conv3x3.cc` hands MindSpore's convolution to MindSpore's own oneDNN in the layouts that oneDNN
prefers; `build.py` compiles it, `conv3x3.py` makes a cell of it. Where that can't be done
MindSpore's operators take over, and one line says why. `SR_KERNELS=off` turns ours off.
"""

import ctypes
import logging
import os
from functools import cache
from pathlib import Path

from sr_app import threads
from sr_app.errors import ConfigError
from sr_app.kernels.build import UnavailableError, built

_log = logging.getLogger(__name__)


@cache
def library(device: str) -> Path | None:
    """The library of our operators, ready for use on MindSpore's device (CPU, GPU, Ascend).

    None where MindSpore's own are to be used: their convolution is then held to AVX2, for it is 80
    times too slow on AVX-512 processors otherwise (with ours that would halve the speed). So this
    must come before the first convolution. Set ONEDNN_MAX_CPU_ISA to choose otherwise.
    Decided once; raises ConfigError when SR_KERNELS or SR_THREADS is not what it can be.
    """
    wanted = os.environ.get("SR_KERNELS", "on")
    if wanted not in ("on", "off"):
        raise ConfigError(f"SR_KERNELS is {wanted!r}: it can be on (or not set) or off")
    try:
        if wanted == "off":
            _log.info("MindSpore's own convolution is used, for SR_KERNELS is off")
        elif device == "CPU":
            return _started(built())
        else:
            _log.info("MindSpore's own convolution is used, for the device is %s", device)
    except UnavailableError as reason:
        _log.warning("MindSpore's own convolution is used, which is slower: %s", reason)
    if "DNNL_MAX_CPU_ISA" not in os.environ:  # oneDNN's other name for the same setting
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
    return None


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
