"""The networks that there are, by their name in a checkpoint: a further one is one line here.

A network is a frozen dataclass that describes it, with `scale` and `receptive_radius` (the halo of
a tile, in low-resolution pixels), and a cell made from that: (n, 3, h, w) -> (n, 3, scale * h,
scale * w), RGB in 0..255.
"""

from mindspore import nn

from sr_app.nets.edsr import EDSR, EDSRConfig
from sr_app.nets.layers import Computing

NetworkConfig = EDSRConfig
"""Any network's description: the union of the configs in the table."""

NETWORKS = {"edsr": (EDSRConfig, EDSR)}


def make(config: NetworkConfig, computing: Computing = "fast") -> nn.Cell:
    """The cell that `config` describes; see `Computing`."""
    return NETWORKS[name_of(config)][1](config, computing)


def name_of(config: NetworkConfig) -> str:
    """The name in the table of the network that `config` describes."""
    return next(name for name, (kind, _) in NETWORKS.items() if isinstance(config, kind))
