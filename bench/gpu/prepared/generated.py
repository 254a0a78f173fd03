"""Text that is generated on the device: tokens per second by users, beside transformers on the same card, and what is copied."""

import glob
import json
import os
import pathlib
import subprocess

from prepared import installed, outputs, speed

USERS = (1, 16, 64)
PROMPT, ANSWER = 64, 48

# Answers a line of a number of users with the seconds that a token of all takes.
TRANSFORMERS = """
import sys, time, torch, transformers
folder, prompt, answer = sys.argv[1], *map(int, sys.argv[2:])
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda().eval()
def run(users, count):
    ids = torch.randint(1000, 2000, (users, prompt), device="cuda")
    torch.cuda.synchronize(); begin = time.monotonic()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize(); return time.monotonic() - begin
print("ready", flush=True)
for line in sys.stdin:
    users = int(line)
    run(users, 2); short, long = run(users, 2), run(users, answer)
    print((long - short) / (answer - 2), flush=True)
"""


def rates(here, say, name, shape="SmolLM2-135M"):
    provider = here.require(name)
    folder = outputs.written_decoder(here, shape)
    model = here.imported(shape.lower().replace(".", "-"), folder)
    peer, why = None, ""
    try:
        peer = speed.Peer(TRANSFORMERS, folder, PROMPT, ANSWER)
    except installed.Unavailable as error:
        why = str(error)
    for users in USERS:
        answer = here.gpux("bench", model, "--prompt-tokens", PROMPT, "--generate-tokens", ANSWER, "--users", users, "--runs", "1", "--warmup", "1", "--json",
                           provider=provider, seconds=70)
        found = json.loads(answer.output) if answer.code == 0 else {}
        found = found[0] if isinstance(found, list) else found
        say(model=shape, provider=name, users=users, **{"tokens/s": found.get("generate_tokens_per_second", answer.last_error), "prompt tokens/s": found.get("prompt_tokens_per_second", ""),
            "first token ms": found.get("first_token_ms", ""), "transformers tokens/s": round(users / peer.ask(str(users)), 1) if peer else why},
            notes=found.get("verdict", {}).get("notes", [installed.verdict_of(answer)]))
    if peer:
        peer.close()


def copies_in(events):
    """Copies between devices that ONNX Runtime itself made in a graph, by its profile."""
    found = {}
    for event in events:
        operator = event.get("args", {}).get("op_name", "")
        if operator.startswith("Memcpy") and event["name"].endswith("_kernel_time"):
            found[operator] = found.get(operator, 0) + 1
    return found


def copies(here, say, name):
    """No copy of keys and values to the host: the copies per token, from ONNX Runtime's profile, and the verdict's word for it."""
    provider = here.require(name)
    model = here.imported("small-decoder", outputs.written_decoder(here, layers=2))
    for tokens in (8, 40):
        profile = here.work / f"generated-{name}-{tokens}.json"
        for file in glob.glob(f"{profile}*"):
            os.unlink(file)
        answer = here.gpux("generate", model, "Once upon a time", "--max-tokens", tokens, "--temperature", "0", "--profile", profile, "--ignore-eos", provider=provider)
        files = sorted(glob.glob(f"{profile}*"))
        events = json.loads(pathlib.Path(files[0]).read_text()) if files else []
        say(provider=name, tokens=tokens, exit=answer.code, copies_in_the_graph=copies_in(events) or "none", said=[line for line in answer.errors.splitlines() if "keys" in line or "ran on" in line])
    counter = here.program.parent / "bench_copies"
    if not counter.exists():
        say(counted_by="bench_copies", not_run="it is not built (the preset release with benches)")
        return
    folder = here.work / "exported"
    if not folder.exists():
        here.gpux("import", outputs.written_decoder(here, layers=2), "-o", folder)
    library = provider.flags[-1].partition("=")[2] if "--provider-library" in provider.flags else here.home / "cuda/libonnxruntime_providers_cuda.so"
    done = subprocess.run([str(counter), "--provider", provider.id, "--library", str(library), "--decoder", str(folder), "--overlap", "0"], capture_output=True,
                          text=True, check=False, env=here.environment(), timeout=60)
    for line in done.stdout.splitlines():
        say(counted_by="bench_copies", exit=done.returncode, line=line)
    if done.returncode:
        say(counted_by="bench_copies", exit=done.returncode, line=(done.stderr.strip().splitlines() or [""])[-1])
