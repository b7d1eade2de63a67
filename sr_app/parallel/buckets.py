"""Gradients averaged over the data axis, in a few large buffers instead of many small ones.

Every all-reduce costs a round of messages whatever its size, and EDSR has 72 to 140 gradients, half
of them biases of a kilobyte (Li et al., 2020, PyTorch Distributed, section 3.2.3).

A compiled graph may run what doesn't depend on one another in any order, and ranks whose graphs
differ (each squares other gradients for the clip) in different ones; collectives that meet in
another order exchange garbage. So each waits for the one before by `ops.depend`.
"""

from collections.abc import Sequence
from math import prod

from mindspore import Tensor, nn, ops

from sr_app.parallel import collectives
from sr_app.parallel.mesh import Axis

BYTES = 4  # of a float32


def fill_buckets(sizes: Sequence[int], most_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Numbers of the tensors that go together, of at most `most_bytes` (a larger one goes alone).

    The last comes first, as backward makes them, so that the first bucket is full the earliest.
    """
    buckets: list[list[int]] = []
    held = 0
    for number in reversed(range(len(sizes))):
        size = sizes[number] * BYTES
        if not buckets or held + size > most_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(number)
        held += size
    return tuple(map(tuple, buckets))


class BucketMean(nn.Cell):
    """The mean over an axis of the loss and all gradients, in buckets.

    Args:
        shapes: of the gradients, all float32.
        axis: over which ranks; of more than one.
        most_bytes: of a bucket.
        at_the_end: begin when backward is done, which has collectives of its own along a tensor
            axis; else as soon as the first bucket is full.
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        axis: Axis,
        most_bytes: int,
        *,
        at_the_end: bool = False,
    ) -> None:
        super().__init__()
        self.at_the_end = at_the_end
        self.shapes = tuple(map(tuple, shapes))
        self.sizes = tuple(prod(shape) for shape in shapes)
        self.buckets = fill_buckets(self.sizes, most_bytes)
        self.sum = collectives.Sum(axis.group)
        self.share = 1.0 / axis.size

    def construct(
        self, value: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(scalar, gradients) -> their means; the scalar travels at the end of the last bucket."""
        means = list(gradients)
        last = len(self.buckets) - 1
        before = gradients if self.at_the_end else value
        for place, bucket in enumerate(self.buckets):
            pieces = [gradients[number].reshape((-1,)) for number in bucket]
            if place == last:
                pieces.append(value.reshape((1,)))
            flat = self.sum(ops.depend(ops.concat(pieces), before)) * self.share
            before = flat
            start = 0
            for number in bucket:
                end = start + self.sizes[number]
                means[number] = flat[start:end].reshape(self.shapes[number])
                start = end
            if place == last:
                value = flat[start : start + 1].reshape(())
        return value, tuple(means)


class TensorMean(nn.Cell):
    """The same with an all-reduce for each tensor, one after the other or fused by MindSpore."""

    def __init__(self, axis: Axis, *, fused: bool) -> None:
        super().__init__()
        self.sum = collectives.Sum(axis.group, fused=fused)
        self.share = 1.0 / axis.size
        self.fused = fused

    def construct(
        self, value: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(scalar, gradients) -> their means."""
        value = self.sum(ops.depend(value, gradients)) * self.share
        means = []
        before = value
        for gradient in gradients:
            if not self.fused:  # fused ones can't wait for one another
                gradient = ops.depend(gradient, before)
            before = self.sum(gradient) * self.share
            means.append(before)
        return value, tuple(means)


class NoMean(nn.Cell):
    """For one rank alone: nothing to average."""

    def construct(
        self, value: Tensor, gradients: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        return value, gradients
