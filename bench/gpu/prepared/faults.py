"""What is left standing when something breaks: the server alive, the verdict true, the memory returned."""

import json
import subprocess
import sys
import time

from prepared import installed, random_models, served

HOLD = """
import sys, time, torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(int(free - float(sys.argv[1]) * 2**20), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def memory_used():
    rows = installed.nvidia_smi("memory.used")
    return int(float(rows[0][0])) if rows else "no device"


def lying_library(here, say):
    """plugins/example fails on command: the answer is an error or the CPU's, and the server answers afterwards."""
    model = here.work / "multiplied.onnx"
    write_multiplication(model)
    for command in ("load", "no-device", "create", "claim-nothing", "crash-load", "crash-create", "crash:1", "run:1", "device-lost:1", "out-of-memory:10"):
        answer = here.gpux("run", model, "-i", "x=[[1,2,3,4]]", "-i", "y=[[2,2,2,2]]", provider=here.provider("example"), seconds=30,
                           environment={"GPUX_EXAMPLE_FAIL": command})
        line = installed.verdict_of(answer)
        lies = answer.code == 0 and line.startswith("ran on example")
        say(failure=command, exit=answer.code, product="right" if "[[2" in answer.output else answer.output.strip() or "none", true_verdict="NO" if lies else "yes", said=line)


def write_multiplication(file):
    graph = random_models.Graph()
    graph.write(file, {"x": [1, 4], "y": [1, 4]}, graph.node("Mul", ["x", "y"]), [1, 4])


def small_limit(here, say, name):
    provider = here.require(name)
    model = here.minilm()
    for limit in ("1MB", "100MB", "4GB"):
        answer = here.gpux("embed", "-m", model, "--memory", limit, "a text", provider=provider)
        say(limit=limit, exit=answer.code, said=installed.verdict_of(answer) if answer.code == 0 else answer.last_error)


def no_memory(here, say, name):
    """Another process holds all but a little of the device's memory, as plain allocations."""
    provider = here.require(name)
    model = here.minilm()
    before = memory_used()
    for left in (1500, 400, 50):
        with subprocess.Popen([sys.executable, "-c", HOLD, str(left)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            if holder.stdout.readline().strip() != "held":
                raise installed.Unavailable("torch could not take the memory")
            answer = here.gpux("embed", "-m", model, "a text", provider=provider, seconds=60)
            holder.stdin.close()
            holder.wait(30)
        say(left_mebibytes=left, exit=answer.code, said=installed.verdict_of(answer) if answer.code == 0 else answer.last_error)
    after = here.gpux("embed", "-m", model, "a text", provider=provider, seconds=60)
    say(left_mebibytes="all again", exit=after.code, said=installed.verdict_of(after))
    time.sleep(1)
    say(memory_before=before, memory_after=memory_used())


def killed_worker(here, say, name):
    """kill -9 under load, with the bench's own clients."""
    here.require(name)
    bench = served.bench(here, name)
    before = memory_used()
    bodies = [json.dumps({"inputs": line}) for line in bench.texts_file(64).read_text().splitlines()]
    say(**bench.killed_worker(bodies), memory_before=before)
    time.sleep(2)
    say(memory_before=before, memory_after=memory_used())
