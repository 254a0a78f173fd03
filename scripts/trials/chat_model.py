"""A tiny decoder with random weights for trials of servers: what it says means nothing, but it says it as any model does."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = (
    "{#- <tool_call> -#}{%- for message in messages -%}<{{ message.role }}>{{ message.content }}{%- endfor -%}"
    "{%- if tools -%}{% for tool in tools %}<{{ tool.function.name }}>{% endfor %}{%- endif -%}"
    "{%- if add_generation_prompt -%}<assistant>{%- endif -%}"
)


def write_chat_model(folder, context_length=640):
    """Writes a folder that `gpux import` takes: a chat template, and tokens that are the characters of ASCII."""
    folder = pathlib.Path(folder)
    source = ROOT / "tests" / "generation" / "references" / "qwen3"
    shutil.copy(source / "model.safetensors", folder)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": context_length}))
    special = ["<unk>", "<s>", "</s>"]
    words = special + ["\u2581", "\n"] + [chr(code) for code in range(ord("!"), ord("~") + 1)]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": False}
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": token, **flags} for i, token in enumerate(special)],
        "pre_tokenizer": space,
        "decoder": space,
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "generation_config.json").write_text('{"eos_token_id": 2, "do_sample": true}')
    (folder / "chat_template.jinja").write_text(TEMPLATE)


@contextlib.contextmanager
def served_chat_model(program, *flags, key=None):
    """Gives the address of a server of the program that has the model, under the name "tiny", and a small text encoder,
    "words". `flags` are more ones of `gpux serve`, `key` an API key that it requires."""
    with tempfile.TemporaryDirectory(prefix="gpux-chat-") as home:
        folder = pathlib.Path(home) / "tiny"
        folder.mkdir()
        write_chat_model(folder, context_length=4096)
        environment = {**os.environ, "GPUX_HOME": str(pathlib.Path(home) / "store")}
        encoder = ROOT / "tests" / "embedding" / "references" / "bert-cls"
        for source, name in ((folder, "tiny"), (encoder, "words")):
            subprocess.run([program, "import", "-q", source, "-t", name], env=environment, check=True)
        if key:
            environment["GPUX_API_KEY"] = key
        serve = [program, "serve", "tiny", "words", "--port", "0", "--no-grpc", "--json", *flags]
        with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            try:
                yield f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}"
            finally:
                server.terminate()
