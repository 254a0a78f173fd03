#!/usr/bin/env python3
"""Asks a running `gpux serve` for vectors as the clients openai and huggingface_hub do, and checks what they make of it.

usage: scripts/trials/clients/texts.py ADDRESS NAME        as in 127.0.0.1:8080 minilm

NAME is a served model that makes vectors of texts. Needs the Python packages openai, huggingface_hub and numpy; installs
nothing.
"""

import math
import sys

import huggingface_hub
import numpy as np
import openai

address, name = "http://" + sys.argv[1], sys.argv[2]
texts = ["a dog runs", "a puppy is running", "the stock market fell"]


def expect(condition, what):
    if not condition:
        sys.exit(f"not as it should be: {what}")


client = openai.OpenAI(base_url=address + "/v1", api_key="none")
answer = client.embeddings.create(model=name, input=texts)  # as base64: the client's own default
vectors = np.array([one.embedding for one in answer.data], dtype=np.float32)
expect(len(vectors) == 3 and answer.usage.prompt_tokens > 3, "embeddings")
expect(all(math.isclose(np.linalg.norm(v), 1, abs_tol=1e-5) for v in vectors), "length 1")
floats = client.embeddings.create(model=name, input=texts[0], encoding_format="float")
expect(np.array_equal(np.float32(floats.data[0].embedding), vectors[0]), "the same bits as numbers and as base64")
expect(len(client.embeddings.create(model=name, input="a", dimensions=4).data[0].embedding) == 4, "dimensions")
expect(name in [model.id for model in client.models.list().data], "the list of models")
expect(client.models.retrieve(name).id == name, "a model")
for error, arguments in (
    (openai.NotFoundError, {"model": "no-such-model", "input": "a"}),
    (openai.BadRequestError, {"model": name, "input": ""}),
    (openai.BadRequestError, {"model": name, "input": "a", "dimensions": 1 << 20}),
):
    try:
        client.embeddings.create(**arguments)
    except error:
        continue
    sys.exit(f"taken: {arguments}")

features = huggingface_hub.InferenceClient(model=address).feature_extraction(texts[0])
expect(np.array_equal(features[0], vectors[0]), "feature_extraction")
for path in ("", "/similarity"):
    similar = huggingface_hub.InferenceClient(model=address + path)
    scores = similar.sentence_similarity(texts[0], other_sentences=texts[1:])
    expect(np.allclose(scores, vectors[1:] @ vectors[0], atol=1e-6), f"sentence_similarity at '{path}'")
print(f"as it should be, with openai {openai.__version__} and huggingface_hub {huggingface_hub.__version__}")
