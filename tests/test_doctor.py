"""`sr-app doctor` shows what is in use."""

from collections.abc import Callable

import pytest

from sr_app import doctor, kernels


def test_the_doctor_names_versions_operators_and_speed(
    command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.05)
    monkeypatch.setenv("SR_THREADS", "1")
    status, out, _ = command("doctor")
    found = {line[:14].strip(): line[14:] for line in out.splitlines()}
    assert status == 0
    assert "mindspore 2." in found["versions"] and found["device"] == "CPU"
    chosen = kernels.choice("CPU")
    own = f"MindSpore's own: {chosen.reason}"
    assert found["convolution"] == (f"ours, {chosen.library}" if chosen.library else own)
    if chosen.library:
        assert found["instructions"] in ("AVX-512", "AVX2", "SSE")
    assert found["threads"].startswith("1 of ")
    assert float(found["speed"].split()[0]) > 0
