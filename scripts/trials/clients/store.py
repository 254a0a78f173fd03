#!/usr/bin/env python3
"""Lets the client ollama, unchanged, change the models of a `gpux serve` that it starts: pull, list, show, embed, copy,
create, push, delete and continue a context. The hub and the registry are servers of this machine.

usage: scripts/trials/clients/store.py PROGRAM        as in build/release/bin/gpux

Needs the package ollama of scripts/requirements-integrations.txt; installs nothing.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import ollama

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from chat_model import ROOT, write_chat_model

GGUF = ROOT / "tests" / "importer" / "gguf" / "llama-q4_0.gguf"


def expect(condition, what):
    if not condition:
        sys.exit(f"not as it should be: {what}")


def refused(status, words, call, *arguments, **named):
    """The call is refused with this status and a message that has these words."""
    try:
        answer = call(*arguments, **named)
        list(answer) if named.get("stream") else answer
    except ollama.ResponseError as error:
        expect(error.status_code == status and words in error.error, f"{words}: {error.status_code} {error.error}")
    else:
        sys.exit(f"accepted: {words}")


@contextlib.contextmanager
def printing(command, **settings):
    """A program that serves until its input ends, and the first line that it prints."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **{**pipes, **settings}) as server:
        try:
            yield server.stdout.readline().strip(), server
        finally:
            server.terminate()


@contextlib.contextmanager
def serving(program, environment, *flags):
    with printing([program, "serve", "--port", "0", "--no-grpc", "--json", *flags], env=environment) as (line, server):
        yield f"http://127.0.0.1:{json.loads(line)['port']}", server


def names(client):
    return sorted(model.model for model in client.list().models)


def slow(hub, seconds):
    """The hub waits so long before each 64 kB."""
    request = urllib.request.Request(hub + "/-/faults", data=json.dumps({"slow": seconds}).encode())
    urllib.request.urlopen(request).close()


def count(address, metric):
    page = urllib.request.urlopen(address + "/metrics").read().decode()
    return int(next(line.split()[-1] for line in page.splitlines() if line.startswith(metric)))


def pull_and_use(client, hub):
    slow(hub, 0.15)
    lines = list(client.pull("org/tiny", stream=True))
    expect(lines[-1].status == "success", "the last line of a pull")
    moved = [line for line in lines if line.total]
    expect(moved and all(0 <= line.completed <= line.total for line in moved), "the progress of a pull")
    expect(any((line.digest or "").startswith("sha256:") for line in moved), "a digest in the progress")
    expect(client.pull("org/tiny").status == "success", "a pull of what is there")
    expect(names(client) == ["hf.co/org/tiny:latest"], "the list after a pull")
    for name in ("hf.co/org/tiny", "org/tiny", "hf.co/Org/Tiny:latest"):
        expect(len(client.embed(model=name, input="a").embeddings) == 1, f"vectors of {name}")
    expect("embedding" in client.show("hf.co/org/tiny").capabilities, "show of a pulled model")


def copy_and_delete(client):
    expect(client.copy("hf.co/org/tiny", "mine").status == "success", "a copy")
    expect(names(client) == ["hf.co/org/tiny:latest", "mine:latest"], "the list after a copy")
    expect(len(client.embed(model="mine", input="a").embeddings) == 1, "vectors of a copy")
    expect(client.delete("mine").status == "success", "a deletion")
    expect(names(client) == ["hf.co/org/tiny:latest"], "the list after a deletion")
    expect([model.model for model in client.ps().models] == ["hf.co/org/tiny:latest"], "ps after a deletion")
    refused(404, "mine", client.embed, model="mine", input="a")
    refused(404, "no model 'mine' is stored", client.delete, "mine")
    refused(404, "no model 'gone' is stored", client.copy, "gone", "mine")
    refused(400, "MINE", client.copy, "hf.co/org/tiny", "MINE")


def create(client, folder):
    files = {path.name: client.create_blob(path) for path in sorted(folder.iterdir())}
    made = list(client.create("talker", files=files, stream=True))
    expect(made[-1].status == "success", "a model of files")
    options = {"num_predict": 8, "temperature": 0}
    text = client.generate("talker", "go on", options=options)
    expect(text.eval_count > 0, "a text of a created model")
    expect(client.create("calm", from_="talker", parameters={"temperature": 0, "top_k": 3}).status == "success",
           "a model with other settings")
    calm = client.generate("calm", "go on", options={"num_predict": 8})
    expect(calm.response == text.response, "the settings of a created model")
    expect(client.create("gguf", files={"llama.gguf": client.create_blob(GGUF)}).status == "success", "a GGUF file")
    expect(client.generate("gguf", "a", raw=True, options=options).eval_count > 0, "a text of a GGUF file")
    refused(400, "system: a package has no place for it", client.create, "talker", from_="calm", system="be brief")
    refused(400, "template: the model's own", client.create, "talker", from_="calm", template="{{ .Prompt }}")
    refused(400, "parameters.stop: a package has no place", client.create, "talker", from_="calm",
            parameters={"stop": ["a"]})
    refused(400, "quantize: gpux import --quantize", client.create, "talker", from_="calm", quantize="q4_K_M")
    refused(400, "from is missing", client.create, "talker")
    refused(404, "no file sha256:", client.create, "talker", files={"a.gguf": "sha256:" + "0" * 64})
    refused(400, "is no name of a file in a folder", client.create, "talker",
            files={"../a.gguf": client.create_blob(GGUF)})


def continue_a_context(client):
    options = {"num_predict": 6, "temperature": 0}
    first = client.generate("talker", "one", options=options)
    expect(len(first.context) >= first.prompt_eval_count + first.eval_count, "the tokens of an answer")
    second = client.generate("talker", "two", context=first.context, options=options)
    alone = client.generate("talker", "two", options=options)
    expect(second.prompt_eval_count == len(first.context) + alone.prompt_eval_count, "a prompt with a context")
    expect(second.context[: len(first.context)] == first.context, "the context goes on")
    lines = list(client.generate("talker", "two", context=first.context, options=options, stream=True))
    expect(lines[-1].context == second.context and not lines[0].context, "the context of a stream")
    expect(not client.generate("talker", "two", raw=True, options=options).context, "no context of a raw prompt")
    refused(400, "context[1] is 4000000000", client.generate, "talker", "two", context=[1, 4000000000])
    refused(400, "raw and context are both there", client.generate, "talker", "two", raw=True, context=[1])


def push(client, registry):
    name = f"{registry}/team/talker"
    client.copy("talker", name)
    lines = list(client.push(name, stream=True))
    expect(lines[-1].status == "success" and any(line.total for line in lines), "a push")
    client.delete(name)
    expect(client.pull(name).status == "success" and f"{name}:latest" in names(client), "a pull of what was pushed")
    refused(404, "no model", client.push, f"{registry}/team/other")
    refused(400, "insecure: the operator decides", client.pull, name, insecure=True)


def leave(client, address, hub):
    """A pull ends with the client that waits for it."""
    slow(hub, 5)
    host = address.removeprefix("http://")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/api/pull", json.dumps({"model": "org/slow"}), {"Content-Type": "application/json"})
    expect(b"status" in connection.getresponse().readline(), "the first line of a slow pull")
    expect(count(address, 'gpux_store_jobs{kind="pull"}') == 1, "a pull that runs")
    connection.close()
    for _ in range(200):
        if count(address, 'gpux_store_jobs_total{kind="pull",end="cancelled"}') == 1:
            break
        time.sleep(0.05)
    else:
        sys.exit("a pull goes on without its client")
    expect(count(address, 'gpux_store_jobs{kind="pull"}') == 0, "no pull runs")
    expect("hf.co/org/slow:latest" not in names(client), "what was not pulled")
    slow(hub, 0)


def strangers(client, registry, environment):
    """What a request must not reach."""
    port = registry.partition(":")[2]
    for name in (f"127.0.0.2:{port}/team/talker", "10.0.0.1/team/talker", "http://169.254.169.254/model.onnx",
                 f"http://[::1]:{port}/model.onnx", f"http://2130706433:{port}/model.onnx"):
        refused(403, "is an address of this machine or of a private network", client.pull, name)
    for name in ("/etc/passwd", "file:///etc/model.onnx", "../model", environment["GPUX_HOME"]):
        refused(400, "", client.pull, name)


def on_demand(program, environment, hub, flags):
    with serving(program, environment, *flags) as (address, _):
        client = ollama.Client(host=address)
        client.delete("hf.co/org/tiny")
        refused(404, "'gpux pull org/tiny' stores it", client.embed, model="org/tiny", input="a")
    with serving(program, environment, "--allow-pull", *flags) as (address, _):
        client = ollama.Client(host=address)
        refused(404, "'gpux pull org/tiny' stores it", client.show, "org/tiny")
        slow(hub, 5)
        impatient = ollama.Client(host=address, headers={"X-Request-Timeout-Ms": "500"})
        refused(504, "the model was not pulled in time", impatient.embed, model="org/slow", input="a")
        slow(hub, 0)
        expect(len(client.embed(model="org/tiny", input="a").embeddings) == 1, "a model that a request pulls")
        refused(404, "org/none", client.embed, model="org/none", input="a")


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="gpux-store-") as home, contextlib.ExitStack() as servers:
        home = pathlib.Path(home)
        for folder in ("hub/org", "registry", "talker"):
            (home / folder).mkdir(parents=True)
        shutil.copytree(ROOT / "tests" / "embedding" / "references" / "bert-cls", home / "hub/org/tiny")
        shutil.copytree(home / "hub/org/tiny", home / "hub/org/slow")
        write_chat_model(home / "talker")
        hub = servers.enter_context(
            printing([sys.executable, str(ROOT / "tests/registry/hub_server.py"), str(home / "hub")]))[0].split()[1]
        registry = "127.0.0.1:" + servers.enter_context(
            printing([sys.executable, str(ROOT / "tests/oci/registry_server.py"), str(home / "registry")]))[0]
        environment = {**os.environ, "GPUX_HOME": str(home / "store"), "HF_ENDPOINT": hub, "HF_HOME": str(home / "hf"),
                       "HF_TOKEN": "hf_good"}
        # Large files of this hub are on another host.
        flags = ["--private-registry", registry, "--private-registry", hub.replace("http://127.0.0.1", "localhost")]
        with serving(program, environment, *flags) as (address, _):
            client = ollama.Client(host=address)
            pull_and_use(client, hub)
            copy_and_delete(client)
            create(client, home / "talker")
            continue_a_context(client)
            push(client, registry)
            leave(client, address, hub)
            strangers(client, registry, environment)
        on_demand(program, environment, hub, flags)
    print("ollama changes the models of gpux")


if __name__ == "__main__":
    main()
