"""Starting ranks with MindSpore's msrun and watching over them; joining when started by it.

    launcher ── msrun ─┬─ scheduler   the ranks meet at it
                       ├─ rank 0      its output is shown on the screen
                       └─ rank 1 ...  each with a log of its own, worker_N.log

All run the same command; the environment (MS_ROLE) tells each what it is. The launcher looks after
them, since msrun alone takes most of a minute to end a run whose rank has died: whatever the end,
it is the last to go, and nothing stays behind. Each process also dies with the one that started it.
"""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import psutil

from sr_app import threads
from sr_app.errors import ConfigError, ParallelError

LOCAL = "127.0.0.1"
MOST_PER_CORE = 8
"""Processes on a CPU: more than one a core is for tests, more than this is a slip of the pen."""
MEET_SECONDS, MEET_FAR_SECONDS = 25, 600
"""How long ranks wait for one another at the start: on one server, on several."""
OPERATION_SECONDS = 1800
"""How long a rank waits in a collective: for one that scores a large picture, or that hangs."""
SILENT_SECONDS = 10
"""Without a heartbeat for so long a rank on another server, which the launcher can't see, is dead;
the scheduler then takes about twice as long to end the run."""
STOP_SECONDS = 300
"""How long ranks may take to end when asked: for a step, a validation and a save."""
LOST_SECONDS = 10
"""After so long without an answer from server 0 the others give up."""
MSRUN_LOOKS = 1.5
"""Seconds in which msrun notices for certain that a rank has failed: it looks once a second."""
LEAVING_SECONDS = 10
"""How long ranks may take to end when the scheduler is gone: it goes when they say goodbye."""
LAST_LINES = 12
INTERRUPTED = 130
SOME_FAILED = 1
"""Of many files some could not be worked on; also what Python ends with after a traceback."""
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FAILED = re.compile(r"Worker process (\d+) exit with exception\. Error code: (-?\d+)")
_NOISE = re.compile(r"\[(INFO|WARNING)\] ")
_MSRUN = (
    "from sr_app.parallel.launch import die_with_parent; die_with_parent(); "
    "from mindspore.parallel.cluster.run import main; main()"
)


@dataclass(frozen=True)
class Ranks:
    """How many ranks, and where.

    Args:
        devices: on each server.
        nodes: servers.
        node_rank: this server's number.
        host, port: where the ranks meet, on server 0; port 0 finds a free one.
    """

    devices: int = 1
    nodes: int = 1
    node_rank: int = 0
    host: str = LOCAL
    port: int = 0

    @property
    def total(self) -> int:
        """On all servers."""
        return self.devices * self.nodes


def wanted(
    devices: int | Literal["auto"], nodes: int = 1, node_rank: int = 0, master: str | None = None
) -> Ranks:
    """The ranks that options ask for; ConfigError when they contradict each other or the machine.

    `auto` is all accelerators of this server; a CPU counts as one.
    """
    target, there = _available()
    most = threads.cores() * MOST_PER_CORE if target == "CPU" else there
    if devices == "auto":
        devices = there
    if not 1 <= devices <= most:
        what = f"{threads.cores()} cores" if target == "CPU" else f"{there} devices ({target})"
        raise ConfigError(
            f"--devices {devices}: this machine has {what}; give 1 to {most}, or auto"
        )
    if nodes < 1 or not 0 <= node_rank < nodes:
        raise ConfigError(
            f"--nodes {nodes} --node_rank {node_rank}: servers are numbered from 0 to nodes - 1"
        )
    if nodes > 1 and master is None:
        raise ConfigError(
            f"--nodes {nodes} needs --master HOST:PORT: server 0's address, a free port there"
        )
    if master is None:
        return Ranks(devices)
    host, colon, port = master.rpartition(":")
    if not (colon and host and port.isdecimal() and 1024 <= int(port) <= 65535):
        raise ConfigError(f"--master {master}: must be HOST:PORT with a port from 1024 to 65535")
    return Ranks(devices, nodes, node_rank, host, int(port))


def _available() -> tuple[str, int]:
    """MindSpore's device, and how many of it are here; a CPU is one."""
    import mindspore as ms

    target = str(ms.get_context("device_target"))
    return target, 1 if target == "CPU" else int(ms.hal.device_count(target))


# --- the ranks' side ----------------------------------------------------------------------------


def joined() -> bool:
    """Whether this process is one of many, started by msrun."""
    return "MS_ROLE" in os.environ


def is_scheduler() -> bool:
    """Whether this process is where the ranks meet: it computes nothing."""
    return os.environ.get("MS_ROLE") == "MS_SCHED"


def join(ranks: int | None = None) -> tuple[int, int]:
    """Meet the others: (this rank, how many there are). The scheduler stays in here to its end.

    Raises ParallelError when they don't come in time or are not `ranks` many.
    """
    from sr_app.parallel import collectives

    die_with_parent()
    needed = ("MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")
    missing = [name for name in needed if name not in os.environ]
    if missing:
        raise ParallelError(
            f"MS_ROLE is set, but {', '.join(missing)} not: this is a rank without its launcher. "
            "Give --devices N, or start through msrun, or unset MS_ROLE"
        )
    os.environ.setdefault("MS_TOPO_TIMEOUT", str(MEET_SECONDS))
    os.environ.setdefault("MS_CPU_COMM_OP_TIMEOUT", str(OPERATION_SECONDS))
    try:
        rank, size = collectives.connect()
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0]
        if is_scheduler():
            raise ParallelError(reason) from error
        raise ParallelError(
            f"the ranks did not meet at {os.environ['MS_SCHED_HOST']}:"
            f"{os.environ['MS_SCHED_PORT']} within {os.environ['MS_TOPO_TIMEOUT']} s ({reason}): "
            "this rank has no launcher, another program has the port, or a server is missing"
        ) from error
    if ranks not in (None, size):
        raise ParallelError(f"{ranks} ranks are asked for, but msrun has started {size}")
    return rank, size


def exit_status(status: int) -> int:
    """What a rank ends with. An interruption and failed files are told by rank 0 alone: msrun kills
    all others at once when one ends with anything but 0."""
    first = os.environ.get("RANK_ID", "0") == "0"
    return 0 if joined() and not first and status in (INTERRUPTED, SOME_FAILED) else status


def die_with_parent() -> None:
    """Be killed when the process that started this one is gone (Linux)."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))


# --- the launcher's side ------------------------------------------------------------------------


def run(words: Sequence[str], ranks: Ranks, logs: Path, show: Callable[[str], None]) -> int:
    """Run `python WORDS` on all ranks; returns the exit status of rank 0.

    SIGINT, SIGTERM and SIGHUP ask the ranks to stop; a second one ends them at once.

    Args:
        words: Python's arguments, for every rank.
        ranks: how many, and where.
        logs: folder for the ranks' logs.
        show: is given what this server's first rank writes.

    Raises ParallelError with the last lines of a rank that failed; ConfigError for a port in use.
    """
    port = _free_port(ranks)
    logs.mkdir(parents=True, exist_ok=True)
    for old in [*logs.glob("worker_*.log"), *logs.glob("scheduler.log")]:
        old.unlink()
    with (logs / "msrun.log").open("w") as log:
        process = subprocess.Popen(
            _command(words, ranks, port, logs),
            env=_environment(ranks),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that Ctrl-C reaches the launcher alone
        )
    watch = _Watch(process, ranks, logs, show)
    try:
        with _stop_requests() as stops:
            return watch.until_the_end(stops)
    finally:
        watch.end_all()


class _Watch:
    """The processes of one run, as they come and go."""

    def __init__(
        self,
        msrun: "subprocess.Popen[bytes]",
        ranks: Ranks,
        logs: Path,
        show: Callable[[str], None],
    ) -> None:
        self.msrun = msrun
        self.logs = logs
        self.show = show
        self.devices = ranks.devices
        self.first_rank = ranks.node_rank * ranks.devices
        self.ranks: dict[int, psutil.Process] = {}
        self.scheduler: psutil.Process | None = None
        self.told = 0
        self.host, self.port = ranks.host, ranks.port
        self.asked, self.met, self.silent = 0.0, False, False

    def until_the_end(self, stops: list[int]) -> int:
        """The exit status; ParallelError when a rank, the scheduler or msrun has failed."""
        forwarded = 0
        since = _Since()
        while True:
            self.look()
            self.tell()
            if len(stops) > 1:
                return INTERRUPTED
            if len(stops) > forwarded and len(self.ranks) == self.devices:
                forwarded = len(stops)
                for process in self.ranks.values():
                    with suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.SIGTERM)
            if since.seconds("asked to stop", gone=forwarded > 0) > STOP_SECONDS:
                raise ParallelError(
                    f"the ranks did not stop within {STOP_SECONDS} s and were ended; the run's "
                    "folder keeps the last save"
                )
            failed = _FAILED.search(self.log("msrun"))
            if failed is not None:
                return self.judged(int(failed[1]), int(failed[2]), stopping=bool(stops))
            if self.msrun.poll() == 0:
                return 0
            if self.msrun.poll() is not None:
                raise ParallelError(f"msrun has failed; {self.last_lines('msrun')}")
            if since.seconds("ranks", gone=self.gone(*self.ranks.values())) > MSRUN_LOOKS:
                self.tell()
                return 0
            if since.seconds("scheduler", gone=self.gone(self.scheduler)) > LEAVING_SECONDS:
                raise ParallelError(f"the scheduler has failed; {self.last_lines('scheduler')}")
            if since.seconds("server 0", gone=self.lost()) > LOST_SECONDS:
                raise ParallelError(
                    f"server 0 ({self.host}:{self.port}) does not answer any more: its run has "
                    "ended, or the network is broken; its own launcher says which"
                )
            time.sleep(0.1)

    def gone(self, *processes: psutil.Process | None) -> bool:
        """Whether processes of ours have ended; not before all have started."""
        known = [process for process in processes if process is not None]
        return len(self.ranks) == self.devices and bool(known) and not any(map(_runs, known))

    def lost(self) -> bool:
        """Whether server 0, once met, is silent; asked from the other servers, every 2 seconds."""
        now = time.monotonic()
        if self.first_rank > 0 and now - self.asked > 2:
            self.asked = now
            try:
                socket.create_connection((self.host, self.port), timeout=2).close()
                self.met, self.silent = True, False
            except OSError:
                self.silent = True
        return self.met and self.silent

    def look(self) -> None:
        """Find the processes that msrun has started."""
        if len(self.ranks) == self.devices:
            return
        with suppress(psutil.Error):
            for process in psutil.Process(self.msrun.pid).children():
                environment = process.environ()
                if environment.get("MS_ROLE") == "MS_SCHED":
                    self.scheduler = process
                elif environment.get("MS_ROLE") == "MS_WORKER":
                    self.ranks[int(environment["RANK_ID"])] = process

    def tell(self) -> None:
        """Show what the first rank has written since the last time, in whole lines."""
        path = self.logs / f"worker_{self.first_rank}.log"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self.told)
            whole = file.read().rpartition(b"\n")
        self.told += len(whole[0]) + len(whole[1])
        lines = (whole[0] + whole[1]).decode(errors="replace").splitlines(keepends=True)
        self.show("".join(line for line in lines if not _NOISE.match(line)))

    def judged(self, pid: int, status: int, *, stopping: bool) -> int:
        """What the first rank's end that was not a 0 means."""
        self.tell()
        rank = next((n for n, process in self.ranks.items() if process.pid == pid), None)
        if status == INTERRUPTED or (stopping and status == -signal.SIGTERM):
            return INTERRUPTED
        if rank == self.first_rank == 0 and status == SOME_FAILED:
            return status  # it has told which
        how = f"ended with status {status}"
        if status < 0:
            how = f"was killed by signal {-status} ({signal.Signals(-status).name})"
        raise ParallelError(f"rank {rank} {how}; {self.last_lines(f'worker_{rank}')}")

    def log(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def last_lines(self, name: str) -> str:
        lines = [line for line in self.log(name).splitlines() if not _NOISE.match(line)]
        last = "\n".join(f"  {line}" for line in lines[-LAST_LINES:]) or "  (none)"
        return f"its last lines ({self.logs / name}.log):\n{last}"

    def end_all(self) -> None:
        """Kill what still runs, whoever has ended already."""
        ours = [*self.ranks.values(), *([self.scheduler] if self.scheduler else [])]
        with suppress(psutil.NoSuchProcess):
            ours += psutil.Process(self.msrun.pid).children(recursive=True)
        for process in ours:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.msrun.kill()
        self.msrun.wait(timeout=10)


class _Since:
    """For how long something has been gone, without a break."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}

    def seconds(self, what: str, *, gone: bool) -> float:
        now = time.monotonic()
        if not gone:
            self.began.pop(what, None)
        return now - self.began.setdefault(what, now) if gone else 0.0


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Within, signals that ask for a stop are only noted."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    before = {each: signal.signal(each, note) for each in STOPS}
    try:
        yield noted
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _free_port(ranks: Ranks) -> int:
    """The port to meet at: on server 0 one that nobody listens to."""
    if ranks.node_rank > 0:
        return ranks.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ranks.host, ranks.port))
        except OSError as error:
            raise ConfigError(
                f"--master {ranks.host}:{ranks.port}: can't be used ({error.strerror}); give "
                "another port, the address of this server, or leave --master out on one server"
            ) from error
        return int(probe.getsockname()[1])


def _command(words: Sequence[str], ranks: Ranks, port: int, logs: Path) -> list[str]:
    folder = str(Path(sys.executable).parent)
    python = next((name for name in ("python", "python3") if shutil.which(name, path=folder)), None)
    if python is None:  # msrun takes no other name, and looks for it on PATH
        raise ParallelError(f"msrun needs a program named python in {folder}; make a link there")
    meet = MEET_SECONDS if ranks.nodes == 1 else MEET_FAR_SECONDS
    return [
        *(sys.executable, "-c", _MSRUN, f"--worker_num={ranks.total}"),
        *(f"--local_worker_num={ranks.devices}", f"--node_rank={ranks.node_rank}"),
        *(f"--master_addr={ranks.host}", f"--master_port={port}", f"--log_dir={logs}"),
        *("--join=True", f"--cluster_time_out={meet}"),
        "--tail_worker_log=999999",  # none: the launcher shows the first one's log
        *("--", python, *words),  # msrun would take --master for one of its own
    ]


def _environment(ranks: Ranks) -> dict[str, str]:
    """Of all processes; what the user has set stays."""
    project = str(Path(__file__).resolve().parents[2])
    before = os.environ
    share = str(max(1, threads.cores() // ranks.devices))  # ranks on one machine share its cores
    defaults = {
        "SR_THREADS": share,
        "OMP_NUM_THREADS": share,
        "GLOG_v": "3",  # errors alone: MindSpore says pages otherwise
        "MS_CPU_COMM_OP_TIMEOUT": str(OPERATION_SECONDS),
        "PYTHONUNBUFFERED": "1",
    }
    if ranks.nodes > 1:
        defaults["MS_NODE_TIMEOUT"] = str(SILENT_SECONDS)
    return {
        **defaults,
        **before,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), before.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, [project, before.get("PYTHONPATH")])),
    }
