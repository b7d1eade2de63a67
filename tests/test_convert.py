"""Weights from PyTorch and back."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sr_app.convert import Style, from_torch, to_torch
from sr_app.errors import CheckpointError, ConfigError
from sr_app.inference.model import Model
from sr_app.nets import weights
from sr_app.nets.description import MEAN, EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: pip install -e '.[convert]'"
)
STYLES: tuple[Style, ...] = ("edsr-pytorch", "basicsr")


def ours(scale: int = 2) -> Weights:
    network = EDSR(EDSRConfig(scale=scale, blocks=2, features=8))
    initialise(network, seed=1)
    return Weights(network.config, weights.gather(network))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("value_range", [1, 255])
def test_there_and_back_is_the_same(
    style: Style, scale: int, value_range: float, tmp_path: Path
) -> None:
    """Within a rounding of float32 where the range differs."""
    source, path = ours(scale), tmp_path / "theirs.safetensors"
    to_torch(source, path, style, value_range)
    back = from_torch(path, 1.0, value_range)
    assert back.config == source.config
    for name, array in source.arrays.items():
        np.testing.assert_allclose(back.arrays[name], array, rtol=1e-6)


@needs_torch
@pytest.mark.parametrize("ending", [".pt", ".pth", ".safetensors"])
def test_a_file_of_pytorch_gives_pytorchs_pixels(ending: str, tmp_path: Path) -> None:
    """Within 1e-3 of 255 (the order of sums)."""
    import torch

    from benchmarks.torch_edsr import TorchEDSR

    network = TorchEDSR(3, blocks=2, features=8, residual_scale=0.5, slope=0.01)
    path = tmp_path / f"theirs{ending}"
    if ending == ".safetensors":
        save_file({name: value.numpy() for name, value in network.state_dict().items()}, path)
    else:
        torch.save(network.state_dict(), path)
    found = from_torch(path, residual_scale=0.5)
    low = np.random.default_rng(0).uniform(0, 255, (9, 14, 3)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(low.transpose(2, 0, 1)[None].copy()))[0].numpy()
    high = Model(found.config, found.arrays, "converted", mode="pynative").enhance(low)
    np.testing.assert_allclose(high, expected.transpose(1, 2, 0), rtol=0, atol=1e-3)


@needs_torch
def test_weights_for_the_range_of_1_give_the_same_pixels(tmp_path: Path) -> None:
    """BasicSR with img_range 1: (x - mean) -> network -> + mean, all in 0..1."""
    import torch
    from torch import nn
    from torch.nn import functional

    source, path = ours(), tmp_path / "theirs.pth"
    to_torch(source, path, "basicsr", 1)
    state: dict[str, Any] = torch.load(path, weights_only=True)["params"]
    low = np.random.default_rng(0).uniform(0, 255, (7, 8, 3)).astype(np.float32)
    mean = torch.tensor(MEAN).reshape(1, 3, 1, 1)

    def conv(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=1)

    x = head = conv(torch.from_numpy(low.transpose(2, 0, 1)[None] / 255) - mean, "conv_first")
    for block in range(2):
        x = x + conv(functional.relu(conv(x, f"body.{block}.conv1")), f"body.{block}.conv2")
    x = nn.PixelShuffle(2)(conv(head + conv(x, "conv_after_body"), "upsample.0"))
    expected = 255 * (conv(x, "conv_last") + mean)[0].numpy().transpose(1, 2, 0)
    high = Model(source.config, source.arrays, "ours", mode="pynative").enhance(low)
    np.testing.assert_allclose(high, expected, rtol=0, atol=1e-3)


def test_the_range_is_told_by_edsr_pytorchs_mean(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    source = ours()
    to_torch(source, path, "edsr-pytorch", 1)
    back = from_torch(path, 1.0)
    np.testing.assert_allclose(back.arrays["tail.bias"], source.arrays["tail.bias"], rtol=1e-6)
    with pytest.raises(ConfigError, match=r"--value-range 255 was given, but the mean"):
        from_torch(path, 1.0, 255)


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    to_torch(ours(), path, "edsr-pytorch")
    theirs = load_file(path)
    del theirs["body.1.body.2.bias"]
    theirs["extra"] = np.zeros(1, np.float32)
    theirs["tail.1.weight"] = np.zeros((3, 8, 1, 1), np.float32)
    save_file(theirs, path)
    with pytest.raises(CheckpointError) as error:
        from_torch(path, 1.0)
    for told in (
        "missing: body.1.body.2.bias (1)",
        "left over: extra (1)",
        "of another shape: tail.1.weight (3, 8, 1, 1) for (3, 8, 3, 3) (1)",
    ):
        assert told in str(error.value)
    save_file({"conv.weight": np.zeros((3, 3), np.float32)}, path)
    with pytest.raises(CheckpointError, match=r"no EDSR's weights.*its keys are conv\.weight"):
        from_torch(path, 1.0)


class Evil:
    """Its pickle makes a folder when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.mkdir, (Path("evil"),))


@needs_torch
def test_nothing_in_a_file_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"head.0.weight": Evil()}, "evil.pt")
    with pytest.raises(CheckpointError, match=r"evil\.pt: not a file of weights alone"):
        from_torch(Path("evil.pt"), 1.0)
    assert not Path("evil").exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("ending", [pytest.param(".pt", marks=needs_torch), ".safetensors"])
def test_damaged_files_are_refused(content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"theirs{ending}"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a file of weights alone"):
        from_torch(path, 1.0)


def test_convert_by_command(command: Callable[..., tuple[int, str, str]]) -> None:
    weights.write(Path("ours.safetensors"), ours())
    status, _, err = command("convert", "ours.safetensors", "a.safetensors", "--to", "basicsr")
    assert status == 0, err
    status, out, err = command("convert", "a.safetensors", "back.safetensors")
    assert status == 0 and "EDSR of 2 blocks x 8, x2" in out, err
    assert weights.read(Path("back.safetensors")).config == ours().config
    for words, told in (
        (["a.safetensors", "b.onnx"], "a checkpoint's name ends in .safetensors"),
        (["ours.safetensors", "b.onnx", "--to", "basicsr"], "must end in .pt, .pth, .safetensors"),
        (["none.pt", "b.safetensors"], "there is no such file"),
        (["a.safetensors", "b.safetensors", "--residual-scale", "2"], "residual_scale"),
    ):
        status, _, err = command("convert", *words)
        assert (status, told in err, "Traceback" in err) == (2, True, False), err
    assert not Path("b.safetensors").exists()
