"""On the other machine: pieces that arrived are kept beside the program, joined, and unpacked once."""

import concurrent.futures
import hashlib
import io
import json
import os
import pathlib
import shutil
import struct
import tarfile


class Broken(Exception):
    """A piece or a part that is not what was packed."""


class Joined(io.RawIOBase):
    """Files one behind the other, read once, with the digest of all that was read."""

    def __init__(self, files):
        super().__init__()
        self.files, self.stream, self.digest = list(files), None, hashlib.sha256()

    def readable(self):
        return True

    def readinto(self, buffer):
        while True:
            if self.stream is None:
                if not self.files:
                    return 0
                self.stream = open(self.files.pop(0), "rb")  # noqa: SIM115 - closed when it has ended
            if count := self.stream.readinto(buffer):
                self.digest.update(memoryview(buffer)[:count])
                return count
            self.stream.close()
            self.stream = None


def keep_pieces(folder, home):
    """Copies what a call brought to where it stays; returns the manifest, or None where the call brought nothing."""
    manifest = folder / "manifest.json"
    if not manifest.exists():
        return None
    pieces = home / "pieces"
    pieces.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        target = pieces / file.name
        if not target.exists() or target.stat().st_size != file.stat().st_size or file.name == "manifest.json":
            shutil.copy(file, target)
    return json.loads(manifest.read_text())


def missing(manifest, home):
    """Of each part that is not unpacked, the calls that bring the pieces that are not here."""
    found = {}
    for name, about in manifest["parts"].items():
        if is_unpacked(name, about, home):
            continue
        files = piece_files(name, about, home)
        found[name] = sorted({piece["call"] for piece, file in zip(about["pieces"], files, strict=True)
                              if not file.exists() or file.stat().st_size != piece["bytes"]})
    return found


def to_repeat(manifest, home, number):
    """Earlier calls whose pieces are gone: the machine is another one."""
    return sorted({call for calls in missing(manifest, home).values() for call in calls if call < number})


def piece_files(name, about, home):
    return [home / "pieces" / f"{name}.{number}" for number in range(1, len(about["pieces"]) + 1)]


def is_unpacked(name, about, home):
    marker = home / name / ".unpacked"
    return marker.exists() and marker.read_text() == about["sha256"]


def unpack(name, about, home):
    """Joins and unpacks a part whose pieces are here. The marker is written last: a part that was interrupted is unpacked again."""
    target = home / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    joined = Joined(piece_files(name, about, home))
    with tarfile.open(fileobj=io.BufferedReader(joined, 1 << 20), mode="r|xz") as archive:
        archive.extractall(target, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    while joined.read(1 << 20):
        pass
    if joined.digest.hexdigest() != about["sha256"]:
        raise Broken(f"{name}: its digest is {joined.digest.hexdigest()[:12]}, and {about['sha256'][:12]} was packed")
    finish(name, target, home)
    (target / ".unpacked").write_text(about["sha256"])
    for file in piece_files(name, about, home):
        file.unlink()


def finish(name, target, home):
    """What is easier to make here than to send."""
    if name == "minilm":
        (target / "model.safetensors").write_bytes(single((target / "model.rounded").read_bytes()))
    if name == "cuda-python":
        for library in ("libonnxruntime_providers_cuda.so", "libonnxruntime_providers_shared.so"):
            os.symlink(home / "cuda" / library, target / "onnxruntime/capi" / library)


def single(data):
    """A safetensors file of float32, from what parts.rounded() made."""
    import numpy

    size = struct.unpack_from("<Q", data)[0]
    shapes = json.loads(data[8 : 8 + size])
    planes = numpy.frombuffer(data, numpy.uint8, offset=8 + size)
    half = planes.size // 2
    bits = planes[:half].astype(numpy.uint32) << 24 | planes[half:].astype(numpy.uint32) << 16
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * int(numpy.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bits.astype("<u4").tobytes()


def unpack_all(manifest, home):
    """Unpacks side by side what is whole; returns name to "unpacked", or why not."""
    lacking = missing(manifest, home)
    whole = [name for name, calls in lacking.items() if not calls]
    found = {name: "is here" for name in manifest["parts"] if name not in lacking}
    found |= {name: f"not here yet: call {', '.join(map(str, calls))} brings it" for name, calls in lacking.items() if calls}
    with concurrent.futures.ThreadPoolExecutor(max(1, len(whole))) as pool:
        tasks = {name: pool.submit(unpack, name, manifest["parts"][name], home) for name in whole}
        for name, task in tasks.items():
            try:
                task.result()
                found[name] = "unpacked"
            except Exception as error:  # noqa: BLE001 - the other parts go on
                found[name] = f"failed: {error or type(error).__name__}"
    return found


def parts_here(home):
    """Names of the parts that are unpacked."""
    return {marker.parent.name for marker in pathlib.Path(home).glob("*/.unpacked")}
