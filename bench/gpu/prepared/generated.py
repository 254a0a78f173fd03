"""Text that is generated on the device: tokens per second by users, beside transformers on the same card, and what is copied."""

import glob
import json
import os
import pathlib
import subprocess
import sys

from prepared import installed, outputs

USERS = (1, 16, 64)
PROMPT, ANSWER = 64, 48

TRANSFORMERS = """
import sys, time, torch, transformers
folder, users, prompt, answer = sys.argv[1], *map(int, sys.argv[2:])
model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.bfloat16).cuda().eval()
ids = torch.randint(1000, 2000, (users, prompt), device="cuda")
def run(count):
    torch.cuda.synchronize(); begin = time.monotonic()
    model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
    torch.cuda.synchronize(); return time.monotonic() - begin
run(4); short, long = run(1), run(answer)
print(users * (answer - 1) / (long - short))
"""


def peer_rate(folder, users):
    done = subprocess.run([sys.executable, "-c", TRANSFORMERS, str(folder), str(users), str(PROMPT), str(ANSWER)], capture_output=True, text=True, check=False, timeout=70)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended"])[-1][:200]
    return round(float(done.stdout.split()[-1]), 1)


def rates(here, say, name, shape="SmolLM2-135M"):
    provider = here.require(name)
    folder = outputs.written_decoder(here, shape)
    model = here.imported(shape.lower().replace(".", "-"), folder)
    for users in USERS:
        answer = here.gpux("bench", model, "--prompt-tokens", PROMPT, "--generate-tokens", ANSWER, "--users", users, "--runs", "1", "--warmup", "1", "--json",
                           provider=provider, seconds=70)
        found = json.loads(answer.output) if answer.code == 0 else {}
        found = found[0] if isinstance(found, list) else found
        say(model=shape, provider=name, users=users, **{"tokens/s": found.get("generate_tokens_per_second", answer.last_error), "prompt tokens/s": found.get("prompt_tokens_per_second", ""),
            "first token ms": found.get("first_token_ms", ""), "transformers tokens/s": peer_rate(folder, users)},
            notes=found.get("verdict", {}).get("notes", [installed.verdict_of(answer)]))


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
