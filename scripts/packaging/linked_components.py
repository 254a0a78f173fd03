"""What the installed gpux is made of, read from a build folder: Debian packages, Rust crates and ONNX Runtime.

Debian packages come from the link lines (archives), from the dependency files of the compiler (headers), and from the
shared libraries that the loader finds. Crates come from cargo's own metadata. Nothing is listed by hand but licences
(packaging/licences.toml), and a Debian package without a licence there is an error.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What `cmake --install` copies and the linker made, from the build folder.
BINARIES = ("bin/gpux", "lib/libgpux.so", "lib/gpux/providers/libgpux_encoder_provider.so")
# How a component is in gpux, the closest relation first.
LINKAGES = ("static", "opened", "dynamic", "headers", "build")


class ComponentError(Exception):
    """Something that gpux is made of cannot be determined; the message is one line."""


@dataclass
class Component:
    """A package whose code is in gpux, or is loaded by it."""

    kind: str  # "debian", "crate", "wheel", "rust", "bundled"
    name: str
    version: str
    licence: str  # SPDX expression
    source: str = ""  # Debian's source package, or the crate that a bundled library comes with
    homepage: str = ""
    architecture: str = ""
    sha256: str = ""
    linkages: set[str] = field(default_factory=set)  # of LINKAGES
    notices: list[Path] = field(default_factory=list)  # files with the texts of the licence

    @property
    def linkage(self) -> str:
        return next(linkage for linkage in LINKAGES if linkage in self.linkages)


def run(*command: str, cwd: Path | None = None) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = result.stderr.strip().splitlines()[-1:] or ["no message"]
        raise ComponentError(f"{command[0]} ended with {result.returncode}: {last[0]}")
    return result.stdout


def inputs_of(build: Path) -> set[str]:
    """All files that the installed binaries are made from, directly or not, as ninja names them."""
    inputs: set[str] = set()
    for binary in BINARIES:
        inputs.update(run("ninja", "-n", "-t", "inputs", binary, cwd=build).split("\n"))
    return inputs


def archives_of(inputs: Iterable[str]) -> set[Path]:
    """Archives of the system on the link lines."""
    return {Path(name) for name in inputs if name.startswith("/usr/") and name.endswith(".a")}


def headers_of(build: Path, inputs: set[str]) -> set[Path]:
    """Headers outside of gpux that the compiler read for the installed binaries."""
    headers: set[Path] = set()
    is_ours = False
    for line in run("ninja", "-n", "-t", "deps", cwd=build).splitlines():
        if not line.startswith(" "):
            is_ours = line.partition(": #deps")[0] in inputs
        elif is_ours:
            headers.add((build / line.strip()).resolve())
    if not headers:
        raise ComponentError(f"'{build}' has no record of headers: build the target 'installed' first")
    return {header for header in headers if header.is_relative_to("/usr")}


def shared_libraries_of(binaries: Iterable[Path]) -> set[Path]:
    """The shared libraries that the loader finds for the binaries, theirs among them."""
    libraries: set[Path] = set()
    for binary in binaries:
        for line in run("ldd", str(binary)).splitlines():
            if "not found" in line:
                raise ComponentError(f"{binary}: {line.strip()}")
            if found := re.search(r"(/\S+) \(0x", line):
                libraries.add(Path(found[1]))
    return libraries


def debian_packages_of(files: Iterable[Path]) -> dict[Path, str]:
    """The Debian package of each file, as NAME:ARCHITECTURE or NAME."""
    # A merged /usr has each library under two paths, and dpkg knows one of them.
    paths: dict[str, Path] = {}
    for file in files:
        for path in (file, file.resolve()):
            paths[str(path)] = file
            if path.is_relative_to("/usr"):
                paths["/" + str(path.relative_to("/usr"))] = file
            else:
                paths["/usr" + str(path)] = file
    names = sorted(paths)
    found: dict[Path, str] = {}
    for begin in range(0, len(names), 1000):
        result = subprocess.run(
            ["dpkg-query", "--search", *names[begin : begin + 1000]], capture_output=True, text=True, check=False
        )
        for line in result.stdout.splitlines():
            packages, _, name = line.partition(": ")
            if name in paths and not packages.startswith("diversion"):
                found[paths[name]] = packages.split(", ")[0]
    return found


def debian_components(relations: dict[str, set[Path]], licences: dict[str, str]) -> list[Component]:
    packages: dict[str, set[str]] = {}
    for linkage, files in relations.items():
        owners = debian_packages_of(files)
        if missing := sorted(set(files) - set(owners)):
            raise ComponentError(f"no Debian package has '{missing[0]}' (and {len(missing) - 1} more)")
        for package in owners.values():
            packages.setdefault(package, set()).add(linkage)
    form = "${Package}\t${Version}\t${source:Package}\t${Architecture}\t${Homepage}\n"
    components = []
    for package, linkages in sorted(packages.items()):
        name, version, source, architecture, homepage = run(
            "dpkg-query", "--show", f"--showformat={form}", package
        ).split("\t")
        if source not in licences:
            raise ComponentError(f"packaging/licences.toml has no licence for '{source}' (the source of {name})")
        components.append(
            Component(
                kind="debian",
                name=name,
                version=version,
                licence=licences[source],
                source=source,
                homepage=homepage.strip(),
                architecture=architecture,
                linkages=linkages,
                notices=[Path(f"/usr/share/doc/{name}/copyright")],
            )
        )
    return components


def licence_files(folder: Path) -> list[Path]:
    pattern = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)")
    return sorted(file for file in folder.iterdir() if file.is_file() and pattern.match(file.name))


def crate_components(build: Path) -> list[Component]:
    """Every crate of Cargo.lock: "static" where it is compiled into the tokenizers' archive, otherwise "build"."""
    manifest = ROOT / "rust/gpux-text/Cargo.toml"
    crates = ROOT / ".deps/crates"
    sources = [
        "--config",
        'source.crates-io.replace-with="fetched"',
        "--config",
        f'source.fetched.directory="{crates}"',
    ]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--manifest-path", str(manifest)]
    metadata = json.loads(run(*command, *sources))
    host = next(line.split()[1] for line in run("rustc", "-vV").splitlines() if line.startswith("host:"))
    linked = json.loads(run(*command, "--filter-platform", host, *sources))["resolve"]
    packages = {package["id"]: package for package in metadata["packages"]}

    def is_macro(package: str) -> bool:
        return any("proc-macro" in target["kind"] for target in packages[package]["targets"])

    nodes = {node["id"]: node for node in linked["nodes"]}
    static: set[str] = set()
    waiting = [linked["root"]]
    while waiting:
        package = waiting.pop()
        if package in static or is_macro(package):
            continue
        static.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])

    components = []
    for identifier, package in sorted(packages.items()):
        if identifier == linked["root"]:
            continue
        name = package["name"]
        folder = Path(package["manifest_path"]).parent
        # "MIT/Apache-2.0" is how crates wrote it before SPDX.
        licence = " ".join((package["license"] or "").replace("/", " OR ").split())
        if not licence:
            raise ComponentError(f"the crate {name} names no licence")
        linkage = "static" if identifier in static else "build"
        components.append(
            Component(
                kind="crate",
                name=name,
                version=package["version"],
                licence=licence,
                homepage=package["repository"] or "",
                linkages={linkage},
                notices=licence_files(folder),
            )
        )
        if name == "onig_sys" and linkage == "static":
            components.append(oniguruma(folder / "oniguruma"))
    locked = tomllib.loads((manifest.parent / "Cargo.lock").read_text())["package"]
    expected = {(crate["name"], crate["version"]) for crate in locked if "source" in crate}
    found = {(component.name, component.version) for component in components if component.kind == "crate"}
    if expected != found:
        raise ComponentError(f"Cargo.lock and cargo's metadata differ: {min(expected ^ found)}")
    version = run("rustc", "--version").split()[1]
    components.append(
        Component(
            kind="rust",
            name="rust-std",
            version=version,
            licence="MIT OR Apache-2.0",
            homepage="https://www.rust-lang.org/",
            linkages={"static"},
        )
    )
    return components


def oniguruma(folder: Path) -> Component:
    """The C library that the crate onig_sys compiles and links."""
    header = (folder / "src/oniguruma.h").read_text()
    numbers = [re.search(rf"#define ONIGURUMA_VERSION_{part}\s+(\d+)", header) for part in ("MAJOR", "MINOR", "TEENY")]
    if not all(numbers):
        raise ComponentError(f"'{folder}/src/oniguruma.h' has no version")
    return Component(
        kind="bundled",
        name="oniguruma",
        version=".".join(number[1] for number in numbers if number),
        licence="BSD-2-Clause",
        source="onig_sys",
        homepage="https://github.com/kkos/oniguruma",
        linkages={"static"},
        notices=licence_files(folder),
    )


def onnxruntime_component() -> Component:
    """ONNX Runtime's CPU library, which is delivered with gpux and opened when it runs."""
    versions = dict(
        line.split("=", 1)
        for line in (ROOT / "scripts/versions").read_text().splitlines()
        if re.match(r"^onnxruntime_(version|sha256)=", line)
    )
    folder = ROOT / ".deps/onnxruntime/lib"
    return Component(
        kind="wheel",
        name="onnxruntime",
        version=versions["onnxruntime_version"],
        licence="MIT",
        homepage="https://onnxruntime.ai",
        sha256=versions["onnxruntime_sha256"],
        linkages={"opened", "headers"},
        notices=[folder / "LICENSE", folder / "ThirdPartyNotices.txt"],
    )


def usearch_component() -> Component:
    """The header of the index of files of vectors."""
    manifest = tomllib.loads((ROOT / "rust/usearch/Cargo.lock").read_text())
    (crate,) = [package for package in manifest["package"] if package["name"] == "usearch"]
    return Component(
        kind="bundled",
        name="usearch",
        version=crate["version"],
        licence="Apache-2.0",
        source="usearch",
        homepage="https://github.com/unum-cloud/usearch",
        sha256=crate["checksum"],
        linkages={"headers"},
        # The crate has no file of its licence; this one's text names no holder.
        notices=[Path("/usr/share/common-licenses/Apache-2.0")],
    )


def licences_of_debian_packages() -> dict[str, str]:
    table: dict[str, str] = tomllib.loads((ROOT / "packaging/licences.toml").read_text())["debian"]
    return table


def components_of(build: Path) -> list[Component]:
    """Everything that the installed gpux of `build` is made of. Raises ComponentError."""
    inputs = inputs_of(build)
    binaries = [build / binary for binary in BINARIES]
    core = ROOT / ".deps/onnxruntime/lib/libonnxruntime.so"
    relations = {
        "static": archives_of(inputs),
        "headers": headers_of(build, inputs),
        "dynamic": shared_libraries_of([*binaries, core]),
    }
    return [
        onnxruntime_component(),
        usearch_component(),
        *debian_components(relations, licences_of_debian_packages()),
        *crate_components(build),
    ]
