"""Exported files: what they compute, what they say of themselves, and what is refused."""

import hashlib
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sr_app.errors import CheckpointError, ConfigError
from sr_app.inference import export as exporting
from sr_app.inference.export import Format, beside, export, open_exported
from sr_app.inference.model import Model
from sr_app.nets import weights
from sr_app.nets.description import EDSRConfig
from sr_app.nets.edsr import EDSR
from sr_app.nets.layers import initialise
from sr_app.nets.weights import Weights

ONNX = pytest.param(
    "onnx",
    marks=pytest.mark.skipif(
        find_spec("onnx") is None or find_spec("onnxruntime") is None,
        reason="needs onnx and onnxruntime: pip install -e '.[onnx]'",
    ),
)


@pytest.fixture
def source(network: Callable[..., EDSR]) -> Weights:
    made = network()
    return Weights(made.config, weights.gather(made))


@pytest.mark.parametrize("form", [ONNX, "mindir"])
@pytest.mark.parametrize(
    "scale", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
def test_an_exported_network_gives_the_same_at_any_size(
    form: Format, scale: int, tmp_path: Path
) -> None:
    """At sizes that were not used for export; within 1e-3 of 255, the order of sums."""
    made = EDSR(EDSRConfig(scale=scale, blocks=1, features=8, residual_scale=0.5))
    initialise(made, seed=1)
    source = Weights(made.config, weights.gather(made))
    path = tmp_path / f"network.{form}"
    export(source, path, form, "network", None)
    live = Model(source.config, source.arrays, "live", mode="pynative")
    loaded = Model.load(path)
    assert (loaded.config, loaded.name) == (source.config, "network")
    for height, width in ((5, 7), (64, 20)):
        low = np.random.default_rng(0).uniform(0, 255, (height, width, 3)).astype(np.float32)
        np.testing.assert_allclose(loaded.enhance(low), live.enhance(low), rtol=0, atol=1e-3)


@pytest.mark.parametrize("form", [ONNX, "mindir"])
def test_the_json_tells_what_the_file_is(form: Format, source: Weights, tmp_path: Path) -> None:
    path = tmp_path / f"trunk.{form}"
    export(source, path, form, "trunk", (12, 20))
    about = json.loads(beside(path).read_text())
    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (about["part"], about["size"], about["scale"]) == ("trunk", "12x20", 2)
    assert list(about["largest_difference"]) == ["12x20"]
    assert 0 <= about["largest_difference"]["12x20"] < 1e-3
    assert about["network"]["features"] == 8
    with pytest.raises(CheckpointError, match=r"holds a trunk of size 12x20; pictures need"):
        open_exported(path)


@pytest.mark.parametrize("form", [ONNX, pytest.param("mindir", marks=pytest.mark.slow)])
def test_no_parity_is_no_file(
    form: Format, source: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is given other weights than the source's."""
    writer = exporting.WRITERS[form]
    wrong = {name: 1.1 * array for name, array in source.arrays.items()}
    monkeypatch.setitem(
        exporting.WRITERS,
        form,
        lambda path, config, arrays, part, size: writer(path, config, wrong, part, size),
    )
    path = tmp_path / f"network.{form}"
    path.write_text("the old one")
    with pytest.raises(CheckpointError, match=r"not written, since its results differ"):
        export(source, path, form, "network", None)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "the old one"


@pytest.mark.skipif(find_spec("onnx") is None, reason="needs onnx")
def test_the_onnx_file_is_of_plain_operators_with_free_sizes(source: Weights) -> None:
    from sr_app.inference.graph import graph

    made = graph(source.config, source.arrays, "network")
    kinds = {node.op_type for node in made.graph.node}
    assert kinds == {"Sub", "Conv", "Relu", "Add", "DepthToSpace", "Identity"}
    (given,) = made.graph.input
    assert [each.dim_param or each.dim_value for each in given.type.tensor_type.shape.dim] == [
        "batch",
        3,
        "height",
        "width",
    ]


def test_damaged_files_are_refused(source: Weights, tmp_path: Path) -> None:
    path = tmp_path / "network.mindir"
    with pytest.raises(CheckpointError, match="there is no such file"):
        open_exported(path)
    path.write_bytes(b"something")
    with pytest.raises(CheckpointError, match=r"network\.mindir\.json is missing or damaged"):
        open_exported(path)
    export(source, path, "mindir", "network", None)
    path.write_bytes(path.read_bytes() + b".")
    with pytest.raises(CheckpointError, match="is not the file that"):
        open_exported(path)


def test_an_exported_file_needs_an_engine_that_reads_it(source: Weights, tmp_path: Path) -> None:
    path = tmp_path / "network.mindir"
    export(source, path, "mindir", "network", None)
    with pytest.raises(ConfigError, match="runs by mindspore; --engine openvino can't read it"):
        Model.load(path, engine="openvino")
    with pytest.raises(ConfigError, match="--mode pynative needs a checkpoint"):
        Model.load(path, mode="pynative")
    with pytest.raises(ConfigError, match="takes no other weights"):
        Model.load(path).fill(source.arrays)


@pytest.mark.parametrize("form", [ONNX, "mindir"])
def test_export_and_upscale_by_command(
    form: Format, command: Callable[..., tuple[int, str, str]], checkpoint: Path
) -> None:
    low = np.random.default_rng(0).integers(0, 256, (20, 13, 3), np.uint8)
    Image.fromarray(low).save("low.png")
    status, out, err = command("export", checkpoint, "--format", form, "-o", f"m.{form}")
    assert status == 0, err
    assert "at 48x48 and 31x77 its results differ from the source's by at most" in out
    results = []
    for given in (f"m.{form}", checkpoint):
        status, out, err = command("upscale", "low.png", "-o", "high.png", "--checkpoint", given)
        assert status == 0, err
        with Image.open("high.png") as high:
            results.append(np.asarray(high).astype(int))
    assert np.abs(results[0] - results[1]).max() <= 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--size", "48"], "--size must be dynamic or HEIGHTxWIDTH"),
        (["--size", "0x8"], "--size must be positive"),
        (["-o", "m.onnx", "--format", "mindir"], "the name of a mindir file ends in .mindir"),
        (["-o", "none/m.mindir", "--format", "mindir"], "can't be written"),
    ],
)
def test_what_export_refuses_leaves_nothing(
    words: list[str],
    told: str,
    command: Callable[..., tuple[int, str, str]],
    checkpoint: Path,
) -> None:
    before = set(checkpoint.parent.iterdir())
    status, _, err = command("export", checkpoint, *words)
    assert (status, told in err, "Traceback" in err) == (2, True, False), err
    assert set(checkpoint.parent.iterdir()) == before
