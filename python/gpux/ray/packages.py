"""Model packages on their way from the driver to the nodes: by digest, through Ray's object store, once per node."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from gpux.errors import NotFound, Storage, Usage
from gpux.runtime import path_of
from gpux.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gpux-ray:package"
"""The model's name in a node's cache, which is a store with this model alone."""

_chunk_bytes = 64 * 2**20
_default_cache_bytes = 20_000_000_000
# What a node's own GPUX_HOME has besides models.
_shared_folders = ("providers", "lib", "cores", "python")


@dataclass(frozen=True)
class Blob:
    """A file of a package. `chunks` are references to numpy arrays of uint8 in Ray's object store."""

    digest: str
    size: int
    chunks: tuple[ray.ObjectRef[Any], ...]


@dataclass(frozen=True)
class Package:
    """A model in Ray's object store.

    The driver owns the objects: they are gone when it ends. Pass a package to several calls of `embed()` and `run()` to
    put it there once.
    """

    digest: str
    """SHA-256 of the package's manifest: 64 hexadecimal digits."""
    files: tuple[str, ...]
    """Names of the model's files."""
    blobs: tuple[Blob, ...]
    """References to the files' contents in Ray's object store."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(blob.size for blob in self.blobs)


def _home() -> Path:
    home = os.environ.get("GPUX_HOME")
    return Path(home) if home else Path.home() / ".gpux"


def _blob_file(home: Path, digest: str) -> Path:
    return home / "blobs" / "sha256" / digest


def _digest(descriptor: dict[str, Any]) -> str:
    return str(descriptor["digest"]).removeprefix("sha256:")


def _put(file: Path, digest: str) -> Blob:
    size = file.stat().st_size
    chunks: list[ray.ObjectRef[Any]] = []
    with file.open("rb") as stream:
        while data := stream.read(_chunk_bytes):
            chunks.append(ray.put(np.frombuffer(data, np.uint8)))
    return Blob(digest, size, tuple(chunks))


def _put_package(home: Path, digest: str) -> Package:
    manifest = json.loads(_blob_file(home, digest).read_bytes())
    layers = manifest["layers"]
    digests = dict.fromkeys([digest, _digest(manifest["config"]), *map(_digest, layers)])
    files = tuple(str(layer.get("annotations", {}).get("org.cncf.model.filepath", "")) for layer in layers)
    return Package(digest, files, tuple(_put(_blob_file(home, one), one) for one in digests))


def pack(model: str | os.PathLike[str] | Package) -> Package:
    """Put a model into Ray's object store.

    Args:
        model: NAME[:TAG] or an id in the store; the path of an ONNX file, of a gpux.yml, or of a folder, which is
            stored temporarily and loaded once by that. A package is returned as it is.

    Raises:
        gpux.NotFound, gpux.InvalidModel, gpux.InvalidConfig, gpux.Storage.
    """
    if isinstance(model, Package):
        return model
    if not ray.is_initialized():
        ray.init()
    path = Path(path_of(model))
    if not path.exists():
        stored = Store().find(str(model)) if isinstance(model, str) else None
        if stored is None:
            raise NotFound(f"there is no file '{path}', and no model of that name in the store")
        if stored.damage:
            raise Storage(f"'{model}' is damaged in the store: {stored.damage}")
        return _put_package(_home(), stored.id.removeprefix("sha256:"))
    with tempfile.TemporaryDirectory(prefix="gpux-ray-") as folder:
        store = Store(folder)
        is_hugging_face = path.is_dir() and not (path / "gpux.yml").exists() and (path / "tokenizer.json").exists()
        store_it = store.import_folder if is_hugging_face else store.build
        stored = store_it(path.resolve(), NAME)
        return _put_package(Path(folder), stored.id.removeprefix("sha256:"))


def cache_folder() -> Path:
    """Where this node keeps packages: GPUX_RAY_CACHE, or ~/.cache/gpux/ray."""
    folder = os.environ.get("GPUX_RAY_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpux" / "ray"


def _cache_bytes() -> int:
    text = os.environ.get("GPUX_RAY_CACHE_BYTES")
    if not text:
        return _default_cache_bytes
    if not text.isascii() or not text.isdigit():
        raise Usage(f"GPUX_RAY_CACHE_BYTES is '{text}', and not a number of bytes")
    return int(text)


class InstalledPackage:
    """A package in the cache of this node. It is not removed from there before the process ends or calls close().

    As `home`, it can be the GPUX_HOME of a process, in which the model has the name `NAME`.
    """

    def __init__(self, home: Path, lock: int) -> None:
        self.home = home
        self._lock: int | None = lock

    def use(self) -> None:
        """Make this the store of the process."""
        os.environ["GPUX_HOME"] = str(self.home)

    def close(self) -> None:
        """Let the package be removed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _state_of(home: Path, package: Package) -> dict[str, list[int]] | None:
    """Size and time of each file, which change where somebody changes a file; None where one is missing."""
    state: dict[str, list[int]] = {}
    for blob in package.blobs:
        try:
            found = _blob_file(home, blob.digest).stat()
        except FileNotFoundError:
            return None
        state[blob.digest] = [found.st_size, found.st_mtime_ns]
    return state


def _marker(home: Path) -> Path:
    return home / "installed.json"


def _is_installed(home: Path, package: Package) -> bool:
    try:
        kept = json.loads(_marker(home).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return kept == _state_of(home, package)


def _write_blob(home: Path, blob: Blob) -> None:
    file = _blob_file(home, blob.digest)
    part = file.with_suffix(".part")
    digest = hashlib.sha256()
    with part.open("wb") as stream:
        for reference in blob.chunks:
            # One at a time, so that Ray may free a chunk's copy on this node before the next comes.
            chunk = ray.get(reference)
            digest.update(chunk)
            stream.write(chunk)
            del chunk
        stream.flush()
        os.fsync(stream.fileno())
    if digest.hexdigest() != blob.digest:
        part.unlink()
        raise Storage(f"a file of the model package arrived damaged: its SHA-256 is not {blob.digest}")
    part.replace(file)


def _install(home: Path, package: Package) -> None:
    shutil.rmtree(home, ignore_errors=True)
    (home / "blobs" / "sha256").mkdir(parents=True)
    for blob in package.blobs:
        _write_blob(home, blob)
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            {
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "artifactType": "application/vnd.cncf.model.manifest.v1+json",
                "digest": f"sha256:{package.digest}",
                "size": next(blob.size for blob in package.blobs if blob.digest == package.digest),
                "annotations": {"org.opencontainers.image.ref.name": NAME},
            }
        ],
    }
    (home / "index.json").write_text(json.dumps(index))
    (home / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    own = _home()
    for name in _shared_folders:
        if (own / name).is_dir():
            (home / name).symlink_to((own / name).resolve())
    # Lays the package's files out under their names, which links the blobs once more: before their times are noted.
    if Store(home).find(NAME) is None:
        raise Storage(f"the model package was not stored in {home}")
    part = _marker(home).with_suffix(".part")
    part.write_text(json.dumps(_state_of(home, package)))
    part.replace(_marker(home))


@contextlib.contextmanager
def _exclusive(file: Path, *, wait: bool = True) -> Iterator[int | None]:
    """An open descriptor with an exclusive lock; None where another process has a lock, and `wait` is False."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def _lock_file(cache: Path, digest: str) -> Path:
    """Locked by whoever installs or removes the package."""
    return cache / f"{digest}.lock"


def _use_file(cache: Path, digest: str) -> Path:
    """Locked by all processes that use the package, for as long as they do."""
    return cache / f"{digest}.use"


def _bytes_in(folder: Path) -> int:
    """Disk space, of a file with several links once."""
    found = {(one.st_dev, one.st_ino): one.st_size for file in folder.rglob("*") if (one := file.lstat())}
    return sum(found.values())


def _remove_others(cache: Path, keep: str, limit: int) -> None:
    """Remove packages that no process uses, the one first whose last use is longest ago, until the rest fits."""
    homes = [marker.parent for marker in cache.glob("*/installed.json")]
    sizes = {home: _bytes_in(home) for home in homes}
    total = sum(sizes.values())
    for home in sorted(homes, key=lambda home: _marker(home).stat().st_mtime_ns):
        if total <= limit:
            return
        if home.name == keep:
            continue
        with _exclusive(_lock_file(cache, home.name), wait=False) as lock:
            if lock is None:
                continue
            with _exclusive(_use_file(cache, home.name), wait=False) as unused:
                if unused is not None:
                    shutil.rmtree(home, ignore_errors=True)
                    total -= sizes[home]


def install(package: Package) -> InstalledPackage:
    """Get a package onto this node, unless it is there. Any number of processes may call it at once: one fetches.

    Raises:
        gpux.Storage: the disk is full, or what arrived has another digest.
    """
    cache = cache_folder()
    limit = _cache_bytes()
    home = cache / package.digest
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _exclusive(_lock_file(cache, package.digest)):
            if not _is_installed(home, package):
                # Processes that use files which somebody changed keep them open, or mapped.
                _install(home, package)
            os.utime(_marker(home))
            shared = os.open(_use_file(cache, package.digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(shared, fcntl.LOCK_SH)
        with _exclusive(cache / "removal.lock"):
            _remove_others(cache, package.digest, limit)
    except OSError as error:
        if isinstance(error, Storage):
            raise
        raise Storage(f"the model package cannot be kept in {cache}: {error}") from error
    return InstalledPackage(home, shared)


__all__ = ["NAME", "Blob", "InstalledPackage", "Package", "cache_folder", "install", "pack"]
