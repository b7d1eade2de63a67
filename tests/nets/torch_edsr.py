"""EDSR in PyTorch, with the module names of the authors' code, for the parity test."""

import torch
from torch import nn

MEAN = 255 * torch.tensor([0.4488, 0.4371, 0.4040]).reshape(1, 3, 1, 1)


class _LeakyGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, dout):
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, dout, ctx.slope * dout), None


class LeakyGradReLU(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return _LeakyGrad.apply(x, self.slope)


def conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class Block(nn.Module):
    def __init__(self, features: int, residual_scale: float, slope: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(features, features), LeakyGradReLU(slope), conv(features, features)
        )
        self.residual_scale = residual_scale

    def forward(self, x):
        return x + self.residual_scale * self.body(x)


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
        stages = []
        for factor in {2: (2,), 3: (3,), 4: (2, 2)}[scale]:
            stages += [conv(features, features * factor**2), nn.PixelShuffle(factor)]
        self.tail = nn.Sequential(nn.Sequential(*stages), conv(features, 3))

    def forward(self, x):
        x = self.head(x - MEAN)
        return self.tail(x + self.body(x)) + MEAN
