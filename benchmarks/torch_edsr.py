"""EDSR in PyTorch, with the module names of the authors' code: for the parity test and as the other
side of train_step.py, so written for speed where PyTorch has a fused operator."""

from typing import Any

import torch
from torch import nn

MEAN = 255 * torch.tensor([0.4488, 0.4371, 0.4040]).reshape(1, 3, 1, 1)


class _LeakyGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        y = x.relu()
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        # dout where y > 0, slope * dout elsewhere; True: y is the output, which has the same sign
        return torch.ops.aten.leaky_relu_backward(dout, y, ctx.slope, True), None


class LeakyGradReLU(nn.Module):
    """ReLU forward, the gradient of a leaky ReLU backward."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _LeakyGrad.apply(x, self.slope)


def conv(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3x3 convolution that keeps height and width."""
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Block(nn.Module):
    """x + residual_scale * conv(activation(conv(x)))."""

    def __init__(self, features: int, residual_scale: float, slope: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(features, features), LeakyGradReLU(slope), conv(features, features)
        )
        self.residual_scale = residual_scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, self.body(x), alpha=self.residual_scale)


class TorchEDSR(nn.Module):
    """RGB (n, 3, h, w) in 0..255 -> (n, 3, scale * h, scale * w)."""

    def __init__(
        self, scale: int, blocks: int, features: int, residual_scale: float, slope: float
    ) -> None:
        super().__init__()
        self.head = nn.Sequential(conv(3, features))
        self.body = nn.Sequential(
            *[Block(features, residual_scale, slope) for _ in range(blocks)],
            conv(features, features),
        )
        stages: list[nn.Module] = []
        for factor in {2: (2,), 3: (3,), 4: (2, 2)}[scale]:
            stages += [conv(features, features * factor**2), nn.PixelShuffle(factor)]
        self.tail = nn.Sequential(nn.Sequential(*stages), conv(features, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x - MEAN)
        return self.tail(x + self.body(x)) + MEAN
