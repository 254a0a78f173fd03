"""The bench's own servers and clients (bench/gpu/run) with the gpux of the kit."""

import argparse
import importlib.machinery
import importlib.util
import json
import time


def program(root):
    loader = importlib.machinery.SourceFileLoader("gpu_run", str(root / "bench/gpu/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_run", loader))
    loader.exec_module(module)
    return module


def bench(here, name):
    module, provider = program(here.root), here.provider(name)
    libraries = [word for word in provider.flags[3:] if word != "--provider-library"]
    options = argparse.Namespace(gpux=here.program, provider=provider.flags[1], provider_library=libraries, wheels=None, quick=True)
    found = module.Bench(options, here.work)
    found.environment = here.environment(provider)
    found.text_models = lambda: {"MiniLM": here.minilm()}
    here.minilm()
    return found


def bodies_of(texts, each):
    return [json.dumps({"inputs": texts[begin : begin + each]}) for begin in range(0, len(texts) - each + 1, each)]


def requests(here, say, name, seconds=4, steps=None):
    """Texts per second over HTTP: requests of one text, and of 32."""
    if name not in ("encoder", "cpu"):
        here.require(name)
    test = bench(here, name)
    texts = test.texts_file(2048).read_text().splitlines()
    steps = steps or [("one worker", []), ("two workers", ["--workers", "2"]), ("worker process", ["--isolation", "process"])]
    for step, flags in steps:
        for each in (1, 32):
            try:
                with test.server("minilm", *test.flags, *flags) as server:
                    bodies = bodies_of(texts, each)
                    test.load(test.address(server), "/embed", bodies, 1, 8)
                    begin = time.monotonic()
                    times, statuses = test.load(test.address(server), "/embed", bodies, seconds, 32 if each == 1 else 8)
                    passed = time.monotonic() - begin  # the last answers come after the time
                found = test.rate(times, statuses, passed, "requests/s")
                say(model="MiniLM", provider=name, step=step, texts_of_a_request=each, **{"texts/s": round(found.pop("requests/s") * each), **found})
            except Exception as error:  # noqa: BLE001 - the other rows go on
                say(model="MiniLM", provider=name, step=step, texts_of_a_request=each, not_run=str(error))
