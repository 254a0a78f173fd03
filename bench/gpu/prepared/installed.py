"""gpux as it was unpacked on this machine: where its files are, with which settings each provider runs, and what it answers."""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

NVIDIA_VULKAN = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
# Folders of libraries that are used where the system lacks this one.
FALLBACKS = {"fallback": "libstdc++.so.6", "vulkan": "libvulkan.so.1", "graphics": "libGLX.so.0"}
SYSTEM_VULKAN = ("/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d")


class NoDevice(Exception):
    """What the step would run on is not on this machine."""


class Unavailable(Exception):
    """What the step compares with is not on this machine."""


@dataclasses.dataclass(frozen=True)
class Answer:
    code: int
    output: str
    errors: str
    seconds: float

    @property
    def last_error(self):
        return (self.errors.strip().splitlines() or [""])[-1]


@dataclasses.dataclass(frozen=True)
class Provider:
    """How a provider of the kit is requested."""

    name: str
    flags: tuple
    environment: dict
    part: str

    @property
    def id(self):
        return self.flags[1].split(",")[0]


class Installed:
    def __init__(self, home, root):
        self.home, self.root = pathlib.Path(home), pathlib.Path(root)
        self.program = self.home / "gpux/bin/gpux"
        self.example = self.home / "gpux/lib/libgpux_example_provider.so"
        self.work = self.home / "work"
        # Where it exists, the loader is given the folders of NVIDIA's Python packages, which gpux did not find by itself.
        self.by_loader = self.work / "nvidia-libraries-by-loader"
        self.work.mkdir(parents=True, exist_ok=True)

    def environment(self, provider=None):
        libraries = [self.home / "gpux/lib/bundled"]
        for folder, library in FALLBACKS.items():
            if not has_library(library):
                libraries.append(self.home / "gpux/lib" / folder)
        if self.by_loader.exists():
            libraries += nvidia_libraries()
        found = {**os.environ, "GPUX_HOME": str(self.home / "store"), "LD_LIBRARY_PATH": joined(*libraries, os.environ.get("LD_LIBRARY_PATH"))}
        if sys.prefix != sys.base_prefix:
            found["VIRTUAL_ENV"] = sys.prefix
        if driver := vulkan_driver():
            found["VK_DRIVER_FILES"] = driver
        if provider:
            own = dict(provider.environment)
            if "LD_LIBRARY_PATH" in own:
                own["LD_LIBRARY_PATH"] = joined(own["LD_LIBRARY_PATH"], found["LD_LIBRARY_PATH"])
            found |= own
        return found

    def provider(self, name):
        def plugin(request, library, **environment):
            return Provider(name, ("--provider", f"{request},cpu", "--provider-library", f"{request}={library}"), environment, name)

        if name == "webgpu":
            return plugin("webgpu", self.home / "webgpu/libonnxruntime_providers_webgpu.so")
        if name == "cuda":
            return Provider(name, ("--provider", "cuda,cpu"), {"GPUX_ONNXRUNTIME": str(self.home / "cuda")}, "cuda")
        if name == "cuda-plugin":
            return dataclasses.replace(plugin("cuda", self.home / "cuda/libonnxruntime_providers_cuda.so"), part="cuda")
        if name == "tensorrt-rtx":
            folder = self.home / "tensorrt-rtx"
            return plugin("tensorrt-rtx", folder / "libonnxruntime_providers_nv_tensorrt_rtx.so", LD_LIBRARY_PATH=str(folder))
        if name == "example":
            return plugin("example", self.example)
        return Provider(name, ("--provider", name), {}, "gpux")

    def gpux(self, *arguments, provider=None, seconds=120, environment=None):
        """Runs gpux to its end, or kills it after the time: its code is then that of the signal."""
        begin = time.monotonic()
        command = [str(self.program), *map(str, arguments), *(provider.flags if provider else ())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                              env={**self.environment(provider), **(environment or {})}) as process:
            try:
                output, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
                errors += f"\nended after {seconds} s"
        return Answer(process.returncode, output, errors, time.monotonic() - begin)

    def json(self, *arguments, **more):
        answer = self.gpux(*arguments, **more)
        if answer.code != 0:
            raise RuntimeError(f"gpux {arguments[0]}: exit {answer.code}: {answer.last_error}")
        return json.loads(answer.output)

    def listed(self, provider):
        """The row of `gpux providers`."""
        answer = self.gpux("providers", "--json", *provider.flags[2:], environment=self.environment(provider))
        if answer.code != 0:
            raise RuntimeError(f"gpux providers: exit {answer.code}: {answer.last_error}")
        rows = {row["id"]: row for row in json.loads(answer.output)["providers"]}
        return rows[provider.id]

    def require(self, name):
        """The provider, if this machine has a device for it; NoDevice with gpux's own reason otherwise."""
        provider = self.provider(name)
        row = self.listed(provider)
        if not row["available"] and self.helps_loader(provider, row):
            row = self.listed(provider)
        if not row["available"]:
            raise NoDevice(row["reason"] or "not available")
        kinds = {device["kind"] for device in row["devices"]}
        if name == "webgpu" and not kinds - {"cpu"} and "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER" not in os.environ:
            raise NoDevice("no Vulkan device but the processor")
        return provider

    def helps_loader(self, provider, row):
        """Whether a provider that lacks a library is there with the loader's help, which it then has from now on."""
        if ".so" not in row["reason"] or self.by_loader.exists() or not nvidia_libraries():
            return False
        self.by_loader.touch()
        if self.listed(provider)["available"]:
            return True
        self.by_loader.unlink()
        return False

    def minilm(self):
        """The name of all-MiniLM-L6-v2 in the store, with an fp16 variant."""
        return self.imported("minilm", self.home / "minilm", "--quantize", "fp16")

    def imported(self, name, folder, *flags):
        if self.gpux("inspect", name, "--json", seconds=30).code != 0:
            answer = self.gpux("import", folder, "-t", name, *flags, seconds=240)
            if answer.code != 0:
                raise RuntimeError(f"gpux import: exit {answer.code}: {answer.last_error}")
        return name


def joined(*folders):
    return ":".join(str(folder) for folder in folders if folder)


@functools.cache
def has_library(name):
    done = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
    return name in done.stdout


def nvidia_libraries():
    """The folders of NVIDIA's packages in this Python environment."""
    return sorted({str(file.parent) for file in pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib/*.so*")})


def vulkan_driver():
    """NVIDIA's file where the loader does not look by itself; None where it does, or where there is none."""
    known = [file for folder in SYSTEM_VULKAN for file in pathlib.Path(folder).glob("*nvidia*.json")]
    return NVIDIA_VULKAN if not known and pathlib.Path(NVIDIA_VULKAN).exists() else None


def nvidia_smi(query):
    """One row of words for each GPU; an empty list where there is none."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                              check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def require_gpu():
    if not nvidia_smi("name"):
        raise NoDevice("nvidia-smi finds no GPU")


def verdict_of(answer):
    """The line that says what ran."""
    return next((line.removeprefix("gpux: ") for line in answer.errors.splitlines() if " ran on " in f" {line}"), answer.last_error)
