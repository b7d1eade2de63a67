"""CPU operators of our own in C++: whether they are used, and the library that holds them.

`winograd.h` computes 3x3 convolutions and their gradients, `operators.cc` makes operators of them,
`build.py` compiles these, `conv3x3.py`, `fused.py` and `update.py` make cells of them. Where that
can't be done MindSpore's operators take over, and one line says why. `SR_KERNELS=off` turns ours
off.
`docs/kernels.md` tells how it works.
"""

import ctypes
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sr_app import threads
from sr_app.errors import ConfigError
from sr_app.kernels.build import UnavailableError, built

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """The library of our operators, ready for use, or None and why, and whether that was expected
    or wants mending."""

    library: Path | None
    reason: str = ""
    expected: bool = False


@cache
def choice(device: str) -> Choice:
    """Whether our operators are used on a device (CPU, GPU, Ascend), without loading MindSpore.

    Raises ConfigError when SR_KERNELS or SR_THREADS is not what it can be.
    """
    wanted = os.environ.get("SR_KERNELS", "on")
    if wanted not in ("on", "off"):
        raise ConfigError(f"SR_KERNELS is {wanted!r}: it can be on (or not set) or off")
    if wanted == "off":
        return Choice(None, "SR_KERNELS is off", expected=True)
    if device != "CPU":
        return Choice(None, f"the device is {device}", expected=True)
    try:
        return Choice(_started(built()))
    except UnavailableError as error:
        return Choice(None, str(error))


def library() -> Path | None:
    """The library of our operators where they are used on the device that MindSpore is set to.

    Decided once, told in one line. Where they aren't, MindSpore's convolution is held to AVX2: on
    AVX-512 processors it is 80 times too slow otherwise. So this must come before the first
    convolution. Set ONEDNN_MAX_CPU_ISA to choose otherwise. On the CPU MindSpore's own operators
    are held to SR_THREADS, too. Raises ConfigError as `choice` does.
    """
    import mindspore as ms

    return None if _portable.get() else _library(ms.get_context("device_target"))


@cache
def _library(device: str) -> Path | None:
    chosen = choice(device)
    if device == "CPU":
        _hold_mindspore()
    if chosen.library is None:
        level = logging.INFO if chosen.expected else logging.WARNING
        _log.log(level, "MindSpore's own convolution is used, which is slower: %s", chosen.reason)
        hold_to_avx2()
    return chosen.library


_portable = ContextVar("portable", default=False)


@contextmanager
def portable() -> Iterator[None]:
    """Networks made in here are of MindSpore's own operators: what exported files can hold."""
    hold_to_avx2()
    token = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(token)


def _hold_mindspore() -> None:
    """Its own operators take as many threads as ours; it lets this be said once."""
    import mindspore as ms

    ms.device_context.cpu.op_tuning.threads_num(threads.count())


def instruction_set(library: Path) -> str:
    """The processor's instructions that our operators are compiled for, like "AVX2"."""
    told = ctypes.CDLL(str(library)).sr_instructions
    told.restype = ctypes.c_char_p
    name: bytes = told()
    return name.decode()


def hold_to_avx2() -> None:
    """Hold MindSpore's own convolution to AVX2 (see `library`); too late after the first."""
    if "DNNL_MAX_CPU_ISA" not in os.environ:  # oneDNN's other name for the same setting
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")


def _started(path: Path) -> Path:
    try:
        start = ctypes.CDLL(str(path)).sr_start
    except (OSError, AttributeError) as error:
        raise UnavailableError(f"{path} can't be loaded: {error}") from error
    start.argtypes, start.restype = [ctypes.c_int], None
    start(threads.count())
    return path
