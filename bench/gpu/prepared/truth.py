"""Whether gpux reports the machine and a run as they are: beside nvidia-smi, ONNX Runtime's own profile, and measured errors."""

import contextlib
import glob
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy

from prepared import installed, random_models

PROFILE_SUFFIX = "_kernel_time"
ORT_NAMES = {"cuda": "CUDAExecutionProvider", "webgpu": "WebGpuExecutionProvider", "tensorrt-rtx": "NvTensorRTRTXExecutionProvider"}


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]


def machine(here, say):
    say(fact="system", found=pathlib.Path("/etc/os-release").read_text().split("PRETTY_NAME=")[-1].splitlines()[0].strip('"'))
    say(fact="kernel", found=" ".join(os.uname()[i] for i in (0, 2, 4)))
    say(fact="processors", found=len(os.sched_getaffinity(0)))
    say(fact="Python", found=f"{sys.version.split()[0]} {sys.executable}")
    code = "import importlib.metadata as m\nfor n in ('torch','sentence-transformers','transformers','onnxruntime','onnx','numpy'):\n" \
           " try: print(n, m.version(n), end='; ')\n except Exception: print(n, 'is not here', end='; ')"
    say(fact="its packages", found=first_line(sys.executable, "-c", code))
    smi = installed.nvidia_smi("name,memory.total,driver_version,compute_cap")
    say(fact="nvidia-smi", found=[", ".join(row) for row in smi] or "no device: it is not here, or finds none")
    say(fact="gpux version", found=first_line_of(here.gpux("version")))
    doctor = here.gpux("doctor", "--json")
    with contextlib.suppress(ValueError):
        found = json.loads(doctor.output)
        accelerators = found["machine"].get("accelerators") or []
        say(fact="gpux doctor: accelerators", found=[json.dumps(device) for device in accelerators] or "no device")
        for check in found["checks"]:
            if check["state"] not in ("absent",):
                say(fact=f"gpux doctor: {check['name']}", found=f"{check['state']}: {check['found']}{'; next: ' + check['next'] if check['next'] else ''}")
        say(fact="gpux doctor: as many GPUs as nvidia-smi", found=same_count(smi, accelerators))
    if doctor.code:
        say(fact="gpux doctor: exit code", found=f"{doctor.code}: {doctor.last_error}")
    for variable in ("VK_DRIVER_FILES", "VIRTUAL_ENV"):
        say(fact=variable, found=here.environment().get(variable, "not set"))


def first_line_of(answer):
    return (answer.output.strip().splitlines() or [answer.last_error])[0]


def same_count(rows, accelerators):
    mine = [device for device in accelerators if "nvidia" in json.dumps(device).lower()]
    return f"{'yes' if len(mine) == len(rows) else 'NO'}: {len(mine)} and {len(rows)}"


def memory_agrees(bytes_given, mebibytes):
    """NVML and the runtime reserve a little: within 3 %."""
    return abs(bytes_given / 2**20 - mebibytes) <= 0.03 * mebibytes


def listed(here, say, names):
    """Each provider's row of `gpux providers`, its devices beside nvidia-smi's."""
    smi = installed.nvidia_smi("name,memory.total")
    for name in names:
        provider = here.provider(name)
        row = here.listed(provider)
        if not row["available"] and here.helps_loader(provider, row):
            say(finding=f"gpux does not find a library of {name} that the Python environment has; from now on the loader is given its folders", reason=row["reason"])
            row = here.listed(provider)
        devices = row["devices"]
        agrees = "no device"
        if devices and smi:
            given = next((device[key] for device in devices for key in ("memory_bytes", "memory") if isinstance(device.get(key), int)), None)
            agrees = "gpux names no memory" if given is None else "yes" if memory_agrees(given, float(smi[0][1])) else "NO"
        say(provider=name, available=row["available"], reason=row["reason"], source=row["source"], devices=[json.dumps(one) for one in devices],
            memory_as_nvidia_smi=agrees, note=row.get("note", ""))


def strict(here, say, names):
    """Exit codes: 5 where the provider is missing, 0 where it runs."""
    digits = here.home / "gpux/digits"
    for name in names:
        provider = here.provider(name)
        is_there = here.listed(provider)["available"]
        for flags in (["--strict"], ["--strict=nodes"]):
            answer = here.gpux("run", digits, "-i", f"@{digits}/digit-7.npy", *flags, provider=provider)
            wanted = "0, or 5 with nodes elsewhere" if is_there else "5"
            held = answer.code in ((0, 5) if is_there else (5,))
            say(provider=name, available=is_there, flag=flags[0], exit=answer.code, wanted=wanted, as_wanted="yes" if held else "NO",
                said=installed.verdict_of(answer))


def reported(file):
    """The verdict in a file of --report."""
    return json.loads(file.read_text()).get("verdict", {}) if file.exists() else {}


def counted(events):
    """Nodes by provider in a profile of ONNX Runtime."""
    nodes = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(PROFILE_SUFFIX):
            nodes.setdefault(event["args"].get("provider", "?"), set()).add((event["name"], event["args"].get("node_index")))
    return {provider: len(names) for provider, names in nodes.items()}


def placement(here, say, name):
    """gpux's numbers of nodes beside those of ONNX Runtime's profile, which lists what ran."""
    provider = here.require(name)
    digits, profile, report = here.home / "gpux/digits", here.work / f"profile-{name}.json", here.work / f"report-{name}.json"
    for file in glob.glob(f"{profile}*"):
        os.unlink(file)
    answer = here.gpux("run", digits, "-i", f"@{digits}/digit-7.npy", "--profile", profile, "--report", report, "--isolation", "thread",
                       "--optimization-level", "disabled", provider=provider)  # nodes are fused after they were given away
    verdict = reported(report)
    files = sorted(glob.glob(f"{profile}*"))
    profiled = counted(json.loads(pathlib.Path(files[0]).read_text())) if files else {}
    for row in verdict.get("tried", []):
        if row["outcome"] in ("active", "no_nodes", "not_needed"):
            ran = profiled.get(row["ort_name"], 0)
            say(provider=row["provider"], gpux_says=row["nodes"], profile_says=ran, equal="yes" if ran == row["nodes"] else "NO")
    say(provider=name, line=installed.verdict_of(answer), precision=verdict.get("precision", ""), notes=verdict.get("notes", []))


def precision(here, say, name):
    """What was computed, by its error: about 1e-6 in fp32, 1e-4 to 1e-3 in TF32, 1e-3 in fp16 of one product of 1024 elements."""
    provider = here.require(name)
    file = here.work / "product.onnx"
    matrix = random_models.write_product(file, 1024)
    rows = numpy.random.default_rng(2).standard_normal((64, 1024), numpy.float32)
    numpy.save(here.work / "rows.npy", rows)
    exact = rows.astype(numpy.float64) @ matrix.astype(numpy.float64)
    for asked in ("", "fp32", "tf32"):
        output, report = here.work / "product.npz", here.work / "product.json"
        output.unlink(missing_ok=True)
        answer = here.gpux("run", file, "-i", f"x=@{here.work}/rows.npy", "-o", output, "--report", report, *(["--precision", asked] if asked else []), provider=provider)
        if answer.code or not output.exists():
            say(asked=asked or "default", said=answer.last_error, error="", so="")
            continue
        with numpy.load(output) as found:
            error = float(numpy.abs(found[found.files[0]] - exact).max() / numpy.abs(exact).max())
        said = reported(report).get("precision", "")
        say(asked=asked or "default", said=said, error=error, so="yes" if agrees(said, error) else "NO")


def agrees(said, error):
    return {"fp32": error < 2e-5, "tf32": 2e-5 <= error < 5e-3, "fp16": 2e-5 <= error < 5e-2}.get(said, False)


def cudnn_files():
    """All of them in this Python environment and in the loader's folders."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.splitlines()
    known = {line.split("=> ")[1].strip() for line in listed if "libcudnn" in line and "=> " in line}
    return sorted(known | {str(file) for file in pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/lib/libcudnn*")})


def covers(files):
    """Shell commands after which the files are gone, for this process alone: an empty folder where there is nothing else, else empty files."""
    commands = []
    for folder in sorted({str(pathlib.Path(file).parent) for file in files}):
        here = [file for file in files if str(pathlib.Path(file).parent) == folder]
        if all(file.name.startswith("libcudnn") for file in pathlib.Path(folder).glob("*.so*")):
            commands.append(f"mount -t tmpfs none '{folder}'")
        else:
            commands += [f"mount --bind /dev/null '{file}'" for file in here]
    return commands


def without_cudnn(here, say, name):
    """cuDNN is covered for one process; gpux must refuse the provider, and name the file that is missing."""
    provider, files = here.require(name), cudnn_files()
    if not files:
        raise installed.Unavailable("cuDNN is in no folder that was looked in")
    script = "; ".join([*covers(files), 'exec "$@"'])
    digits = here.home / "gpux/digits"
    command = ["unshare", "-m", "sh", "-ec", script, "sh", str(here.program), "run", str(digits), "-i", f"@{digits}/digit-7.npy", "--strict", *provider.flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=here.environment(provider), timeout=60)
    said = (done.stderr.strip().splitlines() or [""])[-1]
    say(hidden=len(files), exit=done.returncode, said=said, names_the_file="yes" if "libcudnn" in said and done.returncode == 5 else "NO")


def cores_of(process):
    """The different ONNX Runtime libraries that a process has mapped."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/maps") as maps:
        return sorted({line.split()[-1] for line in maps if "/libonnxruntime.so" in line})
    return []


def processes_of(here):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(folder / "exe") == str(here.program):
                yield int(folder.name)


def one_core(here, say, name):
    """A server with models of two providers whose libraries differ: no process may have mapped two of them."""
    provider = here.require(name)
    folder = here.home / "gpux/digits"
    command = [str(here.program), "serve", f"first={folder}", "--port", "0", "--no-grpc", "--isolation", "process", *provider.flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=here.environment(provider)) as server:
        try:
            for line in server.stderr:
                if "listening on" in line:
                    break
            time.sleep(1)
            for process in processes_of(here):
                cores = cores_of(process)
                say(process=process, cores=cores, at_most_one="yes" if len(cores) <= 1 else "NO")
        finally:
            server.terminate()
            server.wait(20)
