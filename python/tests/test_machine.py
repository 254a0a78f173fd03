"""Providers, the doctor, and what importing costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gpux


def test_providers() -> None:
    reports = {report.id: report for report in gpux.providers()}
    assert reports["cpu"].available
    assert reports["cpu"].ort_name == "CPUExecutionProvider"
    assert not reports["directml"].available
    assert reports["directml"].reason
    assert gpux.select_providers("cpu") == ["cpu"]
    assert gpux.select_providers()[-1] == "cpu"
    with pytest.raises(gpux.Usage):
        gpux.select_providers("no such provider")


def test_the_encoder_provider_comes_with_the_package() -> None:
    encoder = next(report for report in gpux.providers() if report.id == "encoder")
    assert encoder.available, encoder.reason


def test_the_doctor() -> None:
    report = gpux.doctor()
    assert report["works"] is True
    assert report["checks"]
    assert any(provider["id"] == "cpu" for provider in report["providers"])


def test_importing_loads_little() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import gpux;"
        "print(*sorted(name for name in set(sys.modules) - before if '.' not in name))"
    )
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "gpux" in loaded
    assert not loaded & {
        "onnxruntime",
        "torch",
        "transformers",
        "asyncio",
        "subprocess",
        "ml_dtypes",
        "multiprocessing",
    }
