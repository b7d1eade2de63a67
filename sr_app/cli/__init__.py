"""The command line: a module for each command, loaded when it is asked for.

The one place with print, argument parsing and exit statuses: 0 done, 2 the user's input is at
fault (told in one line, nothing half written), 130 interrupted. A bug keeps its traceback.
"""

import difflib
import errno
import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from sr_app.errors import SrAppError
from sr_app.parallel import launch

COMMANDS = {
    "train": "train",
    "eval": "evaluate",
    "upscale": "upscale",
    "check-data": "check_data",
    "demo": "demo",
    "doctor": "doctor",
    "inspect": "inspect",
    "export": "export",
    "convert": "convert",
}
"""Name -> the module here and the function in it."""

REFUSED = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EROFS)
"""What the system may refuse wherever a name or place of the user's comes in."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # whatever a name holds, and at once in a pipe, too
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    if launch.is_scheduler():
        return _told(lambda _: launch.join()[0], [])
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if words[0] not in COMMANDS:
        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return _fail(f"there is no command {words[0]!r}{hint}\n{_usage()}")
    return launch.exit_status(_told(_command(words[0]), words[1:]))


def _command(name: str) -> Callable[[list[str]], int]:
    function: Callable[[list[str]], int]
    function = getattr(import_module(f"sr_app.cli.{COMMANDS[name]}"), COMMANDS[name])
    return function


def _told(command: Callable[[list[str]], int], words: list[str]) -> int:
    """The exit status of a command, its errors told."""
    try:
        return command(words)
    except SrAppError as error:
        return _fail(str(error))
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return launch.INTERRUPTED


def _usage() -> str:
    lines = [f"  {name:<12}{_command(name).__doc__}" for name in COMMANDS]
    first, last = "usage: python -m sr_app COMMAND ...\n", "\nCOMMAND --help says more"
    return "\n".join([first, *lines, last])


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
