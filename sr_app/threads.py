"""How many threads this process may use: one setting for our operators and for reading pictures."""

import os

from sr_app.errors import ConfigError

MOST = 1024


def count() -> int:
    """SR_THREADS, else one for each core that this process may use; raises ConfigError."""
    wanted = os.environ.get("SR_THREADS", str(_cores()))
    if not (wanted.isdecimal() and 1 <= int(wanted) <= MOST):
        raise ConfigError(f"SR_THREADS is {wanted!r}: it must be a number, 1 to {MOST}")
    return int(wanted)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux, where a process may be held to some cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
