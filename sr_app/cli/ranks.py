"""What commands share: several devices."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser

from sr_app.parallel import launch

if TYPE_CHECKING:
    from sr_app.parallel.mesh import Mesh

Devices = tuple[int | Literal["auto"], int, int, str | None]
"""--devices, --nodes, --node_rank, --master."""


def add_devices(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--devices",
        type=int | Literal["auto"],
        default="auto",
        help="devices on this server, each with a process; auto takes all accelerators (a CPU: 1)",
    )
    parser.add_argument("--nodes", type=int, default=1, help="servers; start each by hand")
    parser.add_argument("--node_rank", type=int, default=0, help="this server's number, from 0")
    parser.add_argument(
        "--master", type=str | None, default=None, help="HOST:PORT of server 0, where all meet"
    )


def devices_of(given: dict[str, Any]) -> Devices:
    """What says how many ranks there shall be, taken out of the options."""
    return (
        given.pop("devices"),
        given.pop("nodes"),
        given.pop("node_rank"),
        given.pop("master"),
    )


def launch_ranks(words: list[str], ranks: launch.Ranks, logs: Path, quiet: bool = False) -> int:
    """Run a command on several ranks, its first one's words on the screen."""
    servers = f" on each of {ranks.nodes} servers" if ranks.nodes > 1 else ""
    if not quiet:
        print(f"starting {ranks.devices} ranks{servers}; their logs are in {logs}")
    words = ["-m", "sr_app", *words]
    status = launch.run(words, ranks, logs, lambda text: print(text, end="", flush=True))
    if status == launch.INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return status


def launch_and_tidy(words: list[str], ranks: launch.Ranks, quiet: bool = False) -> int:
    """The same; the ranks' logs stay only where one has failed."""
    logs = Path(tempfile.mkdtemp(prefix="sr_app_ranks_"))
    status = launch_ranks(words, ranks, logs, quiet)
    shutil.rmtree(logs)
    return status


def mesh_of(devices: Devices, tensor: int) -> "Mesh":
    """This process's place among the ranks; alone where it was not started as one of many."""
    from sr_app.parallel.mesh import ALONE, mesh

    if not launch.joined():
        return ALONE
    count, nodes, _, _ = devices
    return mesh(*launch.join(None if count == "auto" else count * nodes), tensor)
