"""How many threads this process may use: one setting for our operators and for reading pictures.

Ranks on one machine share its cores: their launcher sets SR_THREADS for each.
"""

import os

from sr_app.errors import ConfigError

MOST = 1024


def count() -> int:
    """SR_THREADS, else one for each core that this process may use; raises ConfigError."""
    wanted = os.environ.get("SR_THREADS", str(cores()))
    if not (wanted.isdecimal() and 1 <= int(wanted) <= MOST):
        raise ConfigError(f"SR_THREADS is {wanted!r}: it must be a number, 1 to {MOST}")
    return int(wanted)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux, where a process may be held to some cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
