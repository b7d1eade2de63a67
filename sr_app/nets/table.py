"""The networks that there are, by their name in a checkpoint: a further one is one line here.

A network is a frozen dataclass that describes it, with `scale` and `receptive_radius` (the halo of
a tile, in low-resolution pixels), and a cell made from that: (n, 3, h, w) -> (n, 3, scale * h,
scale * w), RGB in 0..255.
"""

from typing import TYPE_CHECKING

from sr_app.nets.description import EDSRConfig

if TYPE_CHECKING:  # a description alone needs no MindSpore, which takes a second to load
    from mindspore import nn

    from sr_app.nets.layers import Computing

NetworkConfig = EDSRConfig
"""Any network's description: the union of the configs in the table."""

NETWORKS = {"edsr": EDSRConfig}


def make(config: NetworkConfig, computing: "Computing" = "fast") -> "nn.Cell":
    """The cell that `config` describes; see `Computing`."""
    from sr_app.nets.edsr import EDSR

    return {"edsr": EDSR}[name_of(config)](config, computing)


def name_of(config: NetworkConfig) -> str:
    """The name in the table of the network that `config` describes."""
    return next(name for name, kind in NETWORKS.items() if isinstance(config, kind))
