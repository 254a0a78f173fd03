"""gpux.push, gpux.pull with a key, and archives, with a registry of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpux

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    docker = tmp_path / "docker"
    docker.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(docker))
    folder = tmp_path / "registry"
    folder.mkdir()
    server = subprocess.Popen(
        [sys.executable, REPOSITORY / "tests/oci/registry_server.py", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    yield f"127.0.0.1:{server.stdout.readline().strip()}"
    server.stdin.close()
    server.wait(10)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    gpux.Store(tmp_path / "home").build(REPOSITORY / "tests/models/add.onnx", "add:1")
    return tmp_path / "home"


def make_key(folder: Path, name: str) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the keys")
    key, public = folder / f"{name}.key", folder / f"{name}.pub"
    curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run(["openssl", "genpkey", *curve, "-out", key], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
    return key, public


def test_a_model_goes_to_a_registry_and_back(registry: str, home: Path, tmp_path: Path) -> None:
    name = f"{registry}/team/add:1"
    with pytest.raises(gpux.NotFound, match="no model"):
        gpux.push(name, home=home)
    stored = gpux.Store(home).tag("add:1", name)
    seen: list[tuple[int, int]] = []
    pushed = gpux.push(name, home=home, progress=lambda _, done, total: seen.append((done, total)))
    assert (pushed.name, pushed.digest, pushed.signature_tag) == (name, stored.id, "")
    assert pushed.sent > 0
    assert seen[-1][0] == seen[-1][1] > 0
    again = gpux.push(name, home=home)
    assert (again.sent, again.sent_bytes) == (0, 0)
    other = tmp_path / "other"
    assert gpux.pull(name, home=other).id == stored.id
    assert [f"{package.name}:{package.tag}" for package in gpux.Store(other).list()] == [name]


def test_a_signature_is_required(registry: str, home: Path, tmp_path: Path) -> None:
    key, public = make_key(tmp_path, "signer")
    _, stranger = make_key(tmp_path, "stranger")
    name = f"{registry}/team/signed:1"
    gpux.Store(home).tag("add:1", name)
    gpux.push(name, home=home)
    other = tmp_path / "other"
    with pytest.raises(gpux.Network):
        gpux.pull(name, home=other, verify_key=public)
    assert gpux.push(name, home=home, sign_key=key).signature_tag.endswith(".sig")
    with pytest.raises(gpux.Network):
        gpux.pull(name, home=other, verify_key=stranger)
    assert gpux.Store(other).list() == []
    assert gpux.pull(name, home=other, verify_key=public).name == f"{registry}/team/signed"
    with pytest.raises(gpux.Usage, match=r"^verify_key is not for"):
        gpux.pull("org/name", home=other, verify_key=public)


def test_an_archive_is_written_and_read(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "models.tar"
    saved = gpux.save_packages(["add:1"], archive, home=home)
    assert [package.name for package in saved] == ["add"]
    other = tmp_path / "other"
    loaded = gpux.load_packages(archive, home=other)
    assert [(package.name, package.tag, package.id) for package in loaded] == [("add", "1", saved[0].id)]
    named = gpux.load_packages(archive, names=["sum:2", "sum:3"], home=other)
    assert {package.id for package in named} == {saved[0].id}
    assert len(gpux.Store(other).list()) == 3
    with pytest.raises(gpux.NotFound):
        gpux.save_packages(["none"], archive, home=home)
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    with pytest.raises(gpux.Error):
        gpux.load_packages(archive, home=tmp_path / "third")
    assert gpux.Store(tmp_path / "third").list() == []
