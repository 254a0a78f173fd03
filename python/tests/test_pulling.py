"""gpux.pull from a hub of this machine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpux

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "registry"))
import hub_server  # type: ignore[import-not-found]  # noqa: E402


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "hub"
    shutil.copytree(REPOSITORY / "tests" / "embedding" / "references" / "bert-cls", folder / "Org" / "Tiny")
    server = hub_server.start(folder)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "GPUX_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    yield folder
    server.shutdown()


def test_a_model_is_pulled_and_embeds(hub: Path, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    package = gpux.pull(
        "Org/Tiny", home=tmp_path / "home", progress=lambda file, done, size: calls.append((file, done, size))
    )
    assert (package.name, package.tag) == ("hf.co/org/tiny", "latest")
    assert package.source == "https://huggingface.co/Org/Tiny"
    assert len(package.revision) == 40
    assert calls[-1][1] == calls[-1][2] > 0
    assert [one.name for one in gpux.Store(tmp_path / "home").list()] == ["hf.co/org/tiny"]


def test_what_goes_wrong_has_its_class(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    with pytest.raises(gpux.NotFound):
        gpux.pull("Org/Missing", home=home)
    with pytest.raises(gpux.Usage):
        gpux.pull("nothing", home=home)

    def raises(file: str, done: int, size: int) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        gpux.pull("Org/Tiny", home=home, progress=raises)
    monkeypatch.setenv("GPUX_OFFLINE", "1")
    with pytest.raises(gpux.NotFound, match="GPUX_OFFLINE"):
        gpux.pull("Org/Tiny", home=home)
