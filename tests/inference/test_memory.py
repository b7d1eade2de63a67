"""Memory is bounded by the tile and by the decoded picture, not by the result."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sr_app.image.files import write
from sr_app.image.picture import Picture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux to measure memory"),
]
CODE = """
import resource, sys
import sr_app
sr_app.upscale(sys.argv[1], sys.argv[3], model=sys.argv[4])
first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sr_app.upscale(sys.argv[2], sys.argv[3], model=sys.argv[4])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first) / 1024)
"""


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_a_large_picture_takes_no_more_than_its_decoding_and_a_row_of_tiles(
    tmp_path: Path, checkpoint: Path, ending: str
) -> None:
    """9 megapixels to 36: decoding takes 7 bytes a pixel (Pillow's four and ours), 60 MB, a row of
    tiles of the result 7 MB, and the allocators keep some; the result alone is 103 MB, and 412 in
    float32 as it was once joined."""
    small, large = tmp_path / "small.png", tmp_path / "large.png"
    pixels = np.random.default_rng(0).integers(0, 256, (3000, 3000, 3), np.uint8)
    pixels[1500:] //= 64
    write(large, Picture(pixels))
    write(small, Picture(pixels[:400, :400]))
    words = [str(path) for path in (small, large, tmp_path / f"out.{ending}", checkpoint)]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 100
