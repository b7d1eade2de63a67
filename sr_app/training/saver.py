"""Saves that are written while the run goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from sr_app.errors import SrAppError


class Saver:
    """A thread that writes, one save after the other; use it in a `with`, whose end waits for it.

    What is written must not change any more: copies. What goes wrong is raised by the next call.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "save")
        self._writing: Future[None] | None = None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.wait()
        except SrAppError:
            if kind is None:  # else the run ends by an error already
                raise
        finally:
            self._thread.shutdown()

    def start(self, write: Callable[[], None]) -> None:
        """Begin to write, when what was begun before is done."""
        self.wait()
        self._writing = self._thread.submit(write)

    def look(self) -> None:
        """Raise what has gone wrong, without waiting."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Until all is written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()
