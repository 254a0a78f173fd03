"""What travels: each part is a folder of the machine where it is unpacked, made here from what was built and set up."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

from prepared import cuda_code

ARCHITECTURE = 90  # H100 and H200
# The C library is the other machine's. The C++ library travels too, and is used where that machine has none.
SYSTEMS = re.compile(r"(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libresolv)[-.]")
FALLBACKS = re.compile(r"(libstdc\+\+|libgcc_s)[-.]")
GRAPHICS = ("libEGL.so.1", "libGL.so.1", "libGLX.so.0", "libGLdispatch.so.0", "libOpenGL.so.0", "libGLESv2.so.2", "libX11.so.6", "libXext.so.6")
# The packages that `gpux providers install` takes, without the libraries of CUDA: the Python environment there has those.
WHEELS = {"cuda": "onnxruntime-gpu", "webgpu": "onnxruntime-ep-webgpu", "tensorrt-rtx": "onnxruntime-ep-nv-tensorrt-rtx-cu13"}
PYTHON_THERE = "3.12"


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    content: str  # for the tables
    stage: object  # a function of (place, folder) that fills the folder, and returns what was left out
    sources: object = lambda place: ()  # files whose change makes the part old


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders that parts are made from."""

    root: pathlib.Path
    kit: pathlib.Path

    @property
    def built(self):
        return self.root / "build/release"

    @property
    def deps(self):
        return self.root / ".deps"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(word) for word in command[:4])}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
    return done.stdout


def copy_stripped(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "-o", target, source)
    target.chmod(0o755)


def libraries_of(listing):
    """Name to path, from what ldd prints, without those of every system."""
    found = re.findall(r"^\s*(\S+) => (/\S+)", listing, re.MULTILINE)
    return {name: path for name, path in found if not SYSTEMS.match(name)}


def programs(place):
    """gpux and the benches' programs that are built."""
    return [file for file in sorted((place.built / "bin").glob("*")) if file.name == "gpux" or file.name.startswith("bench_")]


def own_libraries(place):
    return [*sorted((place.built / "lib/gpux/providers").glob("*.so")), place.built / "lib/libgpux_example_provider.so"]


def stage_gpux(place, folder):
    libraries = {}
    for program in programs(place):
        copy_stripped(program, folder / "bin" / program.name)
        libraries |= libraries_of(run("ldd", program))
    for library in own_libraries(place):
        copy_stripped(library, folder / "lib/gpux/providers" / library.name if "example" not in library.name else folder / "lib" / library.name)
        libraries |= libraries_of(run("ldd", library))
    for name, path in libraries.items():
        copy_stripped(path, folder / "lib" / ("fallback" if FALLBACKS.match(name) else "bundled") / name)
    core = (place.built / "lib/gpux/libonnxruntime.so.1").resolve()
    shutil.copy(core, folder / "lib/gpux" / core.name)
    link_short_name(folder / "lib/gpux" / core.name)
    (folder / "lib/gpux/libonnxruntime.so").symlink_to("libonnxruntime.so.1")
    (folder / "lib/vulkan").mkdir()
    shutil.copy(place.deps / "vulkan/libvulkan.so.1", folder / "lib/vulkan/libvulkan.so.1")
    shutil.copytree(place.root / "examples/digits", folder / "digits")
    return stage_graphics(folder / "lib/graphics")


def stage_graphics(folder):
    """What NVIDIA's Vulkan driver loads and a machine without a display may lack."""
    known = dict(re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)", run("ldconfig", "-p"), re.MULTILINE))
    missing = [name for name in GRAPHICS if name not in known]
    libraries = {name: known[name] for name in GRAPHICS if name in known}
    for path in list(libraries.values()):
        libraries |= {name: inner for name, inner in libraries_of(run("ldd", path)).items() if not FALLBACKS.match(name)}
    for name, path in libraries.items():
        copy_stripped(path, folder / name)
    return [f"{', '.join(missing)}: not on this machine (libegl1, libgl1, libgles2, libxext6 have them)"] if missing else []


def wheel(place, part):
    """The wheel of a part; pip takes it from where this machine's pip does."""
    folder = place.kit / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    stem = WHEELS[part].replace("-", "_")
    if not (found := sorted(folder.glob(f"{stem}-*.whl"))):
        platforms = [word for version in ("2_28", "2_27", "2_17") for word in ("--platform", f"manylinux_{version}_x86_64")]
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON_THERE,
            "--implementation", "cp", *platforms, "--dest", folder, WHEELS[part])
        found = sorted(folder.glob(f"{stem}-*.whl"))
    return found[-1]


def take(archive, pattern, folder, change=lambda name, data: data):
    """The files of a wheel whose path matches, in one folder, under the names that the loader looks for."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in archive.namelist():
        if re.fullmatch(pattern, name):
            file = folder / pathlib.PurePosixPath(name).name
            file.write_bytes(change(file.name, archive.read(name)))
            link_short_name(file)


def link_short_name(file):
    """libx.so.1.7.1 is libx.so.1 to the loader."""
    if short := re.fullmatch(r"(lib.*\.so\.\d+)(\.\d+)+", file.name):
        (file.parent / short[1]).symlink_to(file.name)


def for_one_architecture(left_out):
    def change(name, data):
        kept, removed = cuda_code.keep(data, ARCHITECTURE)
        if removed:
            left_out.append(f"{name}: code of other GPUs than compute capability {ARCHITECTURE / 10}, {removed / 1e6:.0f} MB")
        return kept

    return change


def stage_webgpu(place, folder):
    with zipfile.ZipFile(wheel(place, "webgpu")) as archive:
        take(archive, r".*\.so", folder)
    return []


def stage_cuda(place, folder):
    left_out = ["libonnxruntime_providers_tensorrt.so: TensorRT itself is not on that machine"]
    with zipfile.ZipFile(wheel(place, "cuda")) as archive:
        take(archive, r"onnxruntime/capi/libonnxruntime(_providers_(cuda|shared))?\.so(\.[0-9.]+)?", folder, for_one_architecture(left_out))
    return left_out


def stage_cuda_python(place, folder):
    """ONNX Runtime's own Python package for CUDA, which uses the libraries of the part cuda: a link is made where it is unpacked."""
    with zipfile.ZipFile(wheel(place, "cuda")) as archive:
        for name in archive.namelist():
            is_small_module = re.fullmatch(r"onnxruntime/(__init__|capi/[^/]+)\.py", name)
            if is_small_module or re.fullmatch(r"onnxruntime/capi/onnxruntime_pybind11_state.*\.so", name):
                archive.extract(name, folder)
    return ["onnxruntime's Python tools (quantization, transformers)"]


def stage_tensorrt_rtx(place, folder):
    """Whole libraries: little of them is code for one kind of GPU."""
    with zipfile.ZipFile(wheel(place, "tensorrt-rtx")) as archive:
        take(archive, r".*/(?!libtensorrt_plugins)lib[^/]*\.so[0-9.]*", folder)
    return ["libtensorrt_plugins.so: operators that no model here has, 70 MB"]


def rounded(data):
    """The tensors of a safetensors file of float32, rounded to bfloat16: half the bytes. The upper bytes of all elements come first,
    because they repeat and the lower ones do not. Unpacking makes float32 of them again."""
    import numpy

    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + size])
    uppers, lowers, kept = [], [], {}
    for name, about in header.items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        begin, stop = (8 + size + offset for offset in about["data_offsets"])
        bits = numpy.frombuffer(data[begin:stop], "<u4").astype(numpy.uint64)
        bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
        uppers.append((bits >> 8).astype(numpy.uint8).tobytes())
        lowers.append((bits & 0xFF).astype(numpy.uint8).tobytes())
        kept[name] = about["shape"]
    text = json.dumps(kept).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(uppers) + b"".join(lowers)


def stage_minilm(place, folder):
    source = place.deps / "all-MiniLM-L6-v2"
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("model.safetensors", "data_config.json", "README.md"))
    (folder / "model.rounded").write_bytes(rounded((source / "model.safetensors").read_bytes()))
    return ["the lower bits of each weight: they are those of all-MiniLM-L6-v2, rounded to bfloat16; tensors that are not float32"]


def stage_cases(place, folder):
    """The ONNX project's node cases as files; with a sample, which is enough to find what a provider cannot do."""
    code = ("import importlib.machinery as m, importlib.util as u, pathlib, sys\n"
            "l = m.SourceFileLoader('n', sys.argv[1]); n = u.module_from_spec(u.spec_from_loader('n', l)); l.exec_module(n)\n"
            "n.write_cases(pathlib.Path(sys.argv[2]), bool(sys.argv[3]), '')")
    python = place.deps / "python/bin/python3"
    for name, sample in (("sample", "yes"), ("all", "")):
        run(python if python.exists() else sys.executable, "-c", code, place.root / "scripts/references/node-tests", folder / name, sample)
    return []


PARTS = [
    Part("gpux", "gpux, ONNX Runtime for the CPU, gpux's providers, the Vulkan loader, digits", stage_gpux, lambda place: [*programs(place), *own_libraries(place)]),
    Part("webgpu", "the WebGPU plugin", stage_webgpu),
    Part("cases", "the ONNX project's node cases", stage_cases),
    Part("minilm", "all-MiniLM-L6-v2", stage_minilm),
    Part("cuda", "ONNX Runtime with CUDA", stage_cuda),
    Part("cuda-python", "its Python package, for the plain loop", stage_cuda_python),
    Part("tensorrt-rtx", "the plugin of TensorRT for RTX, with its libraries", stage_tensorrt_rtx),
]


def compress(folder, file):
    """A .tar.xz of the folder's content. The filter for x86 makes programs a fifth smaller."""
    archive = ["tar", "-C", folder, "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-c", "."]
    packer = ["nice", "-n", "19", "xz", "-T2", "--x86", "--lzma2=preset=6,dict=64MiB", "-c"]
    unfinished = file.with_suffix(".unfinished")
    with open(unfinished, "wb") as out:
        with subprocess.Popen([str(word) for word in archive], stdout=subprocess.PIPE) as tar:
            code = subprocess.run(packer, stdin=tar.stdout, stdout=out, check=False).returncode
        if code or tar.returncode:
            raise RuntimeError(f"{file.name}: tar ended with {tar.returncode}, xz with {code}")
    unfinished.rename(file)


def digest(file):
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def make(place, part, say):
    """Makes the part, unless it is there; returns its row of the manifest."""
    file, about = place.kit / "parts" / f"{part.name}.tar.xz", place.kit / "parts" / f"{part.name}.json"
    if file.exists() and about.exists() and all(source.stat().st_mtime < file.stat().st_mtime for source in part.sources(place)):
        return json.loads(about.read_text())
    say(f"{part.name}: {part.content} …")
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = place.kit / "stage" / part.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    left_out = part.stage(place, folder)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    compress(folder, file)
    shutil.rmtree(folder)
    found = {"content": part.content, "bytes": file.stat().st_size, "unpacked": unpacked, "sha256": digest(file), "left_out": left_out}
    about.write_text(json.dumps(found, indent=1))
    return found


def tree_bytes(root):
    """Of the files that travel with each call: those of git, and those that git does not ignore."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True)
    files = [root / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return sum(file.lstat().st_size for file in files if os.path.lexists(file))


def write_pieces(place, calls, abouts):
    """The folder of each call: its pieces, and the list of all parts."""
    for old in place.kit.glob("call-*"):
        shutil.rmtree(old)
    listed = {name: {**about, "pieces": []} for name, about in abouts.items()}
    for call in calls:
        folder = place.kit / f"call-{call.number}"
        if call.pieces:
            folder.mkdir()
        for piece in call.pieces:
            with open(place.kit / "parts" / f"{piece.part}.tar.xz", "rb") as stream:
                stream.seek(piece.offset)
                data = stream.read(piece.bytes)
            (folder / f"{piece.part}.{piece.number}").write_bytes(data)
            listed[piece.part]["pieces"].append({"call": call.number, "bytes": piece.bytes, "sha256": hashlib.sha256(data).hexdigest()})
    manifest = {"parts": listed, "calls": [{"number": call.number, "steps": [step.name for step in call.steps]} for call in calls]}
    for folder in place.kit.glob("call-*"):
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    (place.kit / "manifest.json").write_text(json.dumps(manifest, indent=1))
