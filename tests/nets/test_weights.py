"""Checkpoints: nothing has to be retyped, nothing wrong is taken."""

import json
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from safetensors.numpy import save_file

from sr_app.errors import CheckpointError
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights


def tiny(seed: int = 1, **settings: int) -> EDSR:
    network = EDSR(EDSRConfig(**{"blocks": 1, "features": 4, "scale": 3, **settings}))
    initialise(network, seed)
    return network


def written(path: Path, network: EDSR) -> Path:
    weights.write(path, Weights(network.config, weights.gather(network), {"step": 7}))
    return path


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    network = tiny()
    read = weights.read(written(tmp_path / "a.safetensors", network))
    assert read.config == network.config
    assert read.record == {"step": 7}
    for name, array in weights.gather(network).items():
        np.testing.assert_array_equal(read.arrays[name], array)


def test_float16_takes_half_of_the_space_and_is_float32_again_when_read(tmp_path: Path) -> None:
    """Off by the rounding to 11 bits, 2^-11 of a value (2^-24 near 0)."""
    arrays = weights.gather(tiny())
    whole, half = (tmp_path / f"{name}.safetensors" for name in ("whole", "half"))
    weights.write(whole, Weights(tiny().config, arrays))
    weights.write(half, Weights(tiny().config, arrays), "float16")
    held = sum(array.size for array in arrays.values())
    assert whole.stat().st_size - half.stat().st_size == pytest.approx(2 * held, abs=100)
    for name, array in weights.read(half).arrays.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, arrays[name], rtol=2**-11, atol=2**-24)
        assert (array != arrays[name]).any()


def test_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        weights.read(tmp_path / "none.safetensors")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\xff" * 100])
def test_a_file_of_something_else_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        weights.read(path)


def test_a_truncated_file_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", tiny())
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        weights.read(path)


def test_a_foreign_safetensors_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3, np.float32)}, path)
    with pytest.raises(CheckpointError, match="not of this program"):
        weights.read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "reads format 2"),
        ({"value_range": 1.0}, r"values 0\.\.1\.0.*0\.\.255"),
        ({"network": {"name": "rcan"}}, "'rcan'; this program knows edsr"),
        ({"network": {"name": "edsr", "scale": 7}}, "damaged"),
        ({"network": {"name": "edsr", "depth": 7}}, "damaged"),
        ({"network": 3}, "damaged"),
        ({"network": "abc"}, "damaged"),
        ({"network": {"name": "edsr", "scale": 2.0}}, "damaged"),
        ({"network": {"name": "edsr", "features": 10**7}}, "at most 4096"),
        ({"network": {"name": "edsr", "activation": "foo"}}, "damaged"),
        ({"network": {"name": "edsr"}}, r"holds 3 numbers.*has 1369859"),
    ],
)
def test_another_description_is_told(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    """EDSR-PyTorch issues 349 and 278: a network trained on another value range is not used."""
    about = {
        "format": 1,
        "value_range": 255.0,
        "network": {"name": "edsr"},
        "record": {},
        **change,
    }
    path = tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3, np.float32)}, path, {"sr_app": json.dumps(about)})
    with pytest.raises(CheckpointError, match=message):
        weights.read(path)


def test_a_description_that_is_not_json_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3, np.float32)}, path, {"sr_app": "{"})
    with pytest.raises(CheckpointError, match="not a whole"):
        weights.read(path)


def test_weights_that_do_not_fit_name_both_sides() -> None:
    """RCAN issue 12: keys that don't match are an error, not a warning."""
    network, arrays = tiny(), weights.gather(tiny())
    arrays["extra.weight"] = arrays.pop("head.weight")
    arrays["tail.bias"] = np.zeros(5, np.float32)
    message = r"missing: head.weight \(1\); unknown: extra.weight \(1\); shapes: tail.bias \(5,\)"
    before = weights.gather(network)
    with pytest.raises(CheckpointError, match=message):
        weights.fill(network, arrays, "file")
    np.testing.assert_array_equal(weights.gather(network)["tail.bias"], before["tail.bias"])


@pytest.mark.parametrize(
    "bad", [np.array([np.nan] * 4, np.float32), np.array([np.inf] * 4), np.arange(4)]
)
def test_values_that_are_no_finite_floats_are_refused(bad: np.ndarray) -> None:
    arrays = weights.gather(tiny())
    arrays["head.bias"] = bad
    with pytest.raises(CheckpointError, match=r"head\.bias .* other than finite"):
        weights.fill(tiny(), arrays, "file")


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_a_compiled_network_sees_weights_filled_in_later(mode: int) -> None:
    """MindSpore's `set_data` and `load_param_into_net` don't reach a kernel compiled before."""
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        network, other = tiny(1), tiny(2)
        low = Tensor(np.random.default_rng(0).uniform(0, 255, (1, 3, 6, 6)).astype(np.float32))
        kernel = ms.jit(lambda_free(network))
        assert not np.allclose(kernel(low).asnumpy(), other(low).asnumpy())
        weights.fill(network, weights.gather(other), "other")
        np.testing.assert_array_equal(kernel(low).asnumpy(), other(low).asnumpy())
    finally:
        ms.set_context(mode=before)


def lambda_free(network: EDSR):  # type: ignore[no-untyped-def]
    """A function of its own around the network (`ms.jit` can't parse a lambda)."""

    def run(low: Tensor) -> Tensor:
        return network(low)

    return run


def test_a_read_only_folder_is_told_and_the_old_file_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.safetensors", tiny(1))
    before = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CheckpointError, match="No space left on device; the previous one is kept"):
        written(path, tiny(2))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
