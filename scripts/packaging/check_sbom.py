"""Checks a bill of materials against sources that did not write it: Cargo.lock, the binaries and dpkg's database.

usage: check_sbom.py SBOM.cdx.json BUILD_DIR     (exit code 0, or 1 and a line for each problem)
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parents[2]


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_libraries(binary: Path) -> set[str]:
    """The names that the binary itself asks the loader for."""
    return set(re.findall(r"NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", "--wide", str(binary))))


def packages_with(library: str) -> set[str]:
    """The installed Debian packages with a shared library of this name, of any architecture."""
    packages: set[str] = set()
    for line in output_of("dpkg-query", "--search", f"*/{library}").splitlines():
        owners, _, path = line.partition(": ")
        if Path(path).name == library:
            packages.update(owner.split(":")[0] for owner in owners.split(", "))
    return packages


# A symbol that only this archive defines and gpux cannot work without, and its package.
STATIC_SYMBOLS = {
    "grpc_server_create": "libgrpc-dev",
    "Mutex::LockSlowLoop(absl::": "libabsl-dev",
    "google::protobuf::Arena": "libprotobuf-dev",
    "re2::RE2::": "libre2-dev",
    "ares_init": "libc-ares-dev",
    "jpeg_read_header": "libjpeg62-turbo-dev",
    "png_create_read_struct": "libpng-dev",
    "WebPDecode": "libwebp-dev",
    "onig_new": "oniguruma",
}


def problems_of(bill: dict[str, Any], build: Path) -> list[str]:
    components = bill["components"]
    names = {component["name"] for component in components}
    problems = [f"{one['name']} has no version" for one in components if not one.get("version")]
    problems += [f"{one['name']} has no licence" for one in components if not one.get("licenses")]
    locked = tomllib.loads((ROOT / "rust/gpux-text/Cargo.lock").read_text())["package"]
    urls = {component.get("purl", "") for component in components}
    for crate in locked:
        url = f"pkg:cargo/{crate['name']}@{crate['version']}"
        # '+' of a version is escaped in a URL.
        if "source" in crate and url.replace("+", "%2B") not in urls and url not in urls:
            problems.append(f"the crate {crate['name']} {crate['version']} is missing")
    program = build / "bin/gpux"
    for binary in (program, build / "lib/libgpux.so", build / "lib/gpux/providers/libgpux_encoder_provider.so"):
        for library in sorted(needed_libraries(binary)):
            if not names & (packages := packages_with(library)):
                problems.append(f"{binary.name} needs {library}: none of {sorted(packages)} is there")
    symbols = output_of("nm", "--demangle", "--defined-only", str(program))
    for symbol, package in STATIC_SYMBOLS.items():
        if symbol not in symbols:
            problems.append(f"{program} has no '{symbol}': the check needs another symbol for {package}")
        elif package not in names:
            problems.append(f"{package} is missing: {program} has '{symbol}'")
    if "onnxruntime" not in names:
        problems.append("onnxruntime is missing")
    return problems


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    text = Path(arguments[0]).read_text()
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        print(f"not valid by the schema: {error}")
        return 1
    problems = problems_of(json.loads(text), Path(arguments[1]))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
