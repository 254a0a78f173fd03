"""The file that `--out` of each benchmark writes: date, command, note, machine and versions, then the results.
scripts/docs/benchmark-page reads the files of bench/results."""

import contextlib
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys

PEER_PACKAGES = ("sentence-transformers", "torch", "onnxruntime", "openvino")
# Set by the user to measure peers; a path on one machine means nothing on another, so only the name is kept.
VARIABLES = ("PEERS_VENV", "MLSERVER_VENV", "PYTRITON_VENV")


def processor():
    """As in "AMD EPYC (family 25)": virtual machines often hide the model, and the family tells the instruction sets."""
    facts = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name") or platform.processor() or platform.machine()
    return f"{name} (family {facts['cpu family']})" if "cpu family" in facts else name


def command_line(arguments):
    return " ".join([*(f"{name}=…" for name in VARIABLES if os.environ.get(name)), shlex.join(arguments)])


def gpux_versions(program, openvino=None):
    """Of gpux and of the ONNX Runtime that it opens, and of OpenVINO's where its folder is given and exists."""

    def ask(environment):
        command = [str(program), "version", "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)

    found = ask(dict(os.environ))
    versions = {"gpux": found["gpux"]}
    if found.get("onnxruntime"):
        versions["ONNX Runtime"] = found["onnxruntime"]["version"]
    if openvino and pathlib.Path(openvino).exists():
        found = ask({**os.environ, "GPUX_ONNXRUNTIME": str(openvino)})
        versions["ONNX Runtime of OpenVINO"] = found["onnxruntime"]["version"]
    return versions


def peer_versions():
    """Of Python and of the peers' packages in the virtual environment PEERS_VENV; none where it is not set."""
    if not os.environ.get("PEERS_VENV"):
        return {}
    code = (
        "import importlib.metadata as metadata, json, platform, sys\n"
        "found = {'Python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = metadata.version(name)\n"
        "    except metadata.PackageNotFoundError: pass\n"
        "print(json.dumps(found))\n"
    )
    python = pathlib.Path(os.environ["PEERS_VENV"], "bin/python")
    done = subprocess.run([python, "-c", code, *PEER_PACKAGES], capture_output=True, text=True, check=True)
    packages = json.loads(done.stdout)
    # The interpreter's packages, not the libraries that gpux opens.
    return {f"{name} (Python)" if name in ("onnxruntime", "openvino") else name: found for name, found in packages.items()}


def add_arguments(parser):
    parser.add_argument("--out", help="write the results to this file as JSON")
    parser.add_argument("--note", action="append", default=[], help="a sentence kept in the file, such as what else ran on the machine")


def write(path, versions, note=(), arguments=None, **results):
    """`versions`: name to version. `results`: the keys of the benchmark itself."""
    document = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": command_line(arguments or sys.argv),
        "note": list(note),
        "machine": {
            "processor": processor(),
            "processors": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
        },
        "versions": versions,
        **results,
    }
    pathlib.Path(path).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
