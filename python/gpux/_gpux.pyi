"""The classes of the C++ library, as the modules of the package gpux use them."""

import builtins
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpux.errors import Error

def register_errors(classes: dict[int, type[Error]]) -> None: ...
def round_trip(object: object) -> Any: ...  # noqa: A002
def inspect(model: str | PathLike[str]) -> str: ...

class SignatureEntry:
    """An input or output of a model."""

    @property
    def name(self) -> str:
        """As in the model."""
    @property
    def required(self) -> bool:
        """Whether a run needs it. False: it has a default, or is an optional."""
    @property
    def description(self) -> str:
        """The text of gpux.yml or of the model; may be empty."""
    @property
    def type(self) -> str:
        """Element type of a tensor ("float32"), or "sequence(…)", "map(…)" and the like."""
    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """Sizes. A free dimension is its name, or None without a name. None: not a tensor, or the rank is not
        declared.
        """

class Device:
    """A device that a provider can use."""

    @property
    def kind(self) -> str:
        """One of "gpu", "npu", "cpu"."""
    @property
    def name(self) -> str:
        """In the vendor's spelling; may be empty."""
    @property
    def vendor(self) -> str:
        """Such as "NVIDIA"; may be empty."""
    @property
    def index(self) -> int:
        """Among the provider's devices, as in the option `device`."""
    @property
    def memory_bytes(self) -> int:
        """Its own memory; 0 if it is not known, or it has none."""
    @property
    def driver(self) -> str:
        """Version of its driver; empty if it is not known."""
    @property
    def architecture(self) -> str:
        """Such as "sm_90" or "gfx1100"; empty if it is not known."""
    @property
    def address(self) -> str:
        """On the PCI bus: "0000:01:00.0"; empty if it is not known."""

class ProviderAttempt:
    """The outcome of one provider of the request."""

    @property
    def id(self) -> str:
        """gpux's name: "cuda"."""
    @property
    def ort_name(self) -> str:
        """ONNX Runtime's name: "CUDAExecutionProvider"."""
    @property
    def outcome(self) -> str:
        """One of "active" (runs at least one node), "no_nodes" (in the session, without a node), "unavailable"
        (cannot be used on this machine), "failed" (available, but no session could be made with it),
        "not_needed" (another one was selected first).
        """
    @property
    def reason(self) -> str:
        """One sentence; empty if active."""
    @property
    def remedy(self) -> str:
        """What to do, as a command if possible; may be empty."""
    @property
    def source(self) -> str:
        """One of "built in", "bridge", "plugin"; empty if it is not installed."""
    @property
    def devices(self) -> list[Device]:
        """Those that the provider can use."""
    @property
    def device(self) -> Device | None:
        """The one that the session is on; None if it is not known."""
    @property
    def options(self) -> list[tuple[str, str]]:
        """Names and values that were passed to the provider."""
    @property
    def node_count(self) -> int:
        """Nodes that it runs."""
    @property
    def node_share(self) -> float:
        """Its part of all nodes of the session, 0 to 1."""

class Verdict:
    """Where a model runs: the request, the providers tried, and the placement that the session reports.

    str() gives one line, such as "ran on cpu (9 of 9 nodes) in fp32; asked for cuda (provider=); not cuda: REASON".
    """

    @property
    def requested(self) -> str:
        """The request: "auto", "cuda", "tensorrt,cuda,cpu", …"""
    @property
    def requested_from(self) -> str:
        """The source of the request: "provider=" (the argument), "GPUX_PROVIDER", "gpux.yml", "package" or
        "default".
        """
    @property
    def tried(self) -> list[ProviderAttempt]:
        """The providers of the request, in order."""
    @property
    def active(self) -> list[str]:
        """Ids of the providers that run nodes, most nodes first."""
    @property
    def node_count(self) -> int:
        """Nodes of the session after ONNX Runtime's basic optimization."""
    @property
    def precision(self) -> str:
        """What the session computes in: that of the weights, or what the provider makes of it ("tf32", "fp16", …);
        empty if the model has no weights, or it is not known of the provider.
        """
    @property
    def placement_known(self) -> bool:
        """False: ONNX Runtime cannot report which provider runs which node, and `active` has the providers of
        the session.
        """
    @property
    def fell_back(self) -> bool:
        """Whether the first requested provider is not active."""
    @property
    def notes(self) -> list[str]:
        """Such as settings that were translated, or that have no effect."""
    @property
    def runtime_version(self) -> str:
        """Version of ONNX Runtime."""
    @property
    def runtime_path(self) -> str:
        """Path of ONNX Runtime's library."""
    def to_json(self) -> str:
        """The whole verdict as a JSON object."""

class ProviderReport:
    """The requirements of one execution provider, and whether this machine meets them."""

    @property
    def id(self) -> str:
        """gpux's name: "cuda"."""
    @property
    def aliases(self) -> list[str]:
        """Other names that are accepted."""
    @property
    def ort_name(self) -> str:
        """ONNX Runtime's name: "CUDAExecutionProvider"."""
    @property
    def kind(self) -> str:
        """The hardware that it is made for: "gpu", "npu" or "cpu"."""
    @property
    def description(self) -> str:
        """One line."""
    @property
    def systems(self) -> list[str]:
        """Those that it exists for: "linux", "windows", "macos", "android"."""
    @property
    def available(self) -> bool:
        """Whether this machine can use it."""
    @property
    def accelerated(self) -> bool:
        """Whether it is available on a GPU or NPU, and not on a processor or a software device."""
    @property
    def reason(self) -> str:
        """If not available: why, in one sentence."""
    @property
    def remedy(self) -> str:
        """If not available: what to do about it."""
    @property
    def note(self) -> str:
        """If available: what else is worth knowing; may be empty."""
    @property
    def devices(self) -> list[Device]:
        """Those that it can use here."""
    @property
    def source(self) -> str:
        """Where its code is: "built in" (in ONNX Runtime's library), "bridge" (in a library of ONNX Runtime's
        package) or "plugin" (in a library of its own). Empty if none was found.
        """
    @property
    def library(self) -> Path:
        """The bridge or plugin; `Path(".")` if there is none."""
    @property
    def option_names(self) -> list[str]:
        """ONNX Runtime's options for it that gpux knows."""

def providers(libraries: Sequence[tuple[str, str | PathLike[str]]]) -> list[ProviderReport]: ...
def select_providers(request: str, libraries: Sequence[tuple[str, str | PathLike[str]]]) -> list[str]: ...

class RuntimeLibrary:
    """The ONNX Runtime library that this process uses."""

    @property
    def version(self) -> str:
        """Such as "1.31.1"."""
    @property
    def path(self) -> Path:
        """The file."""
    @property
    def origin(self) -> str:
        """Where it was found: "Python package", "GPUX_HOME", "system", …"""

def runtime_library() -> RuntimeLibrary: ...

class Stop:
    """Ends a run from another thread."""

    def __init__(self) -> None: ...
    def request(self) -> None: ...

class BenchmarkResult:
    """Times of the runs of a model, in milliseconds."""

    @property
    def mean_ms(self) -> float:
        """Mean time of a run."""
    @property
    def std_ms(self) -> float:
        """Standard deviation."""
    @property
    def min_ms(self) -> float:
        """The fastest run."""
    @property
    def max_ms(self) -> float:
        """The slowest run."""
    @property
    def median_ms(self) -> float:
        """Median."""
    @property
    def p90_ms(self) -> float:
        """90th percentile."""
    @property
    def p95_ms(self) -> float:
        """95th percentile."""
    @property
    def p99_ms(self) -> float:
        """99th percentile."""
    @property
    def throughput_per_second(self) -> float:
        """Runs per second. A run counts once, whatever its batch size."""
    @property
    def first_run_ms(self) -> float:
        """The first run of the benchmark, which the other times leave out."""
    @property
    def load_ms(self) -> float:
        """How long loading took."""
    @property
    def runs(self) -> int:
        """Runs that were measured."""
    @property
    def warmup_runs(self) -> int:
        """Runs before them."""
    @property
    def peak_memory_bytes(self) -> int:
        """Peak resident memory of the process, in bytes."""

class RunSharing:
    """Whether requests may share a run of a model, and how that is known.

    str() gives one line.
    """

    @property
    def shared(self) -> bool:
        """Whether they do."""
    @property
    def source(self) -> str:
        """How that is known: "signature" (the declared shapes rule it out), "setting" (gpux.yml or an option
        sets it), "graph" (the operators rule it out), "trial" (requests were run alone and together),
        "single-run" (a run has one request anyway), "not-proven" (no trial was made, or it had no result).
        """
    @property
    def reason(self) -> str:
        """One clause, without a full stop."""

class PlacedNode:
    """A node of the session, and the provider that runs it."""

    @property
    def provider(self) -> str:
        """gpux's id of the provider: "cpu"."""
    @property
    def name(self) -> str:
        """The node's name in the session; may be empty."""
    @property
    def domain(self) -> str:
        """The operator's domain; empty for ONNX's own operators."""
    @property
    def operator_type(self) -> str:
        """Such as "Conv"."""

class LoadedModel:
    def __init__(self, model: str, settings: dict[str, Any]) -> None: ...
    def close(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def run(
        self, inputs: object, outputs: Sequence[str] | None, timeout_ms: int | None, stop: Stop | None
    ) -> dict[str, Any]: ...
    def run_batch(
        self, items: list[Any], outputs: Sequence[str] | None, timeout_ms: int | None, batch_limit: int
    ) -> list[dict[str, Any]]: ...
    def benchmark(
        self, inputs: object | None, runs: int, warmup_runs: int, seconds: float | None
    ) -> BenchmarkResult: ...
    def run_sharing(self) -> RunSharing: ...
    def placement(self) -> list[PlacedNode]: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def inputs(self) -> list[SignatureEntry]: ...
    @property
    def outputs(self) -> list[SignatureEntry]: ...
    @property
    def load_ms(self) -> float: ...
    @property
    def content(self) -> str: ...

class EmbeddingOptions:
    def __init__(
        self, prompt: str | None, prompt_name: str, max_tokens: int, dimensions: int, normalize: bool | None
    ) -> None: ...

class LoadedEmbedder:
    def __init__(self, model: str, settings: dict[str, Any], batching: str | None, workers: int) -> None: ...
    def close(self) -> None: ...
    def encode(
        self, texts: list[str], options: EmbeddingOptions, progress: Callable[[int], object] | None
    ) -> NDArray[np.float32]: ...
    def encode_one(self, text: str, options: EmbeddingOptions) -> NDArray[np.float32]: ...
    @property
    def dimension(self) -> int: ...
    @property
    def prompts(self) -> list[tuple[str, str]]: ...
    @property
    def similarity(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...

class TokenLogProbability:
    """A token and its probability by the model, before penalties and temperature."""

    @property
    def token(self) -> int:
        """Its number in the vocabulary."""
    @property
    def log_probability(self) -> float:
        """The natural logarithm."""
    @property
    def bytes(self) -> builtins.bytes:
        """Of the token alone; may be a part of a character."""

class TokenScore:
    """The probabilities at the position of a token."""

    @property
    def chosen(self) -> TokenLogProbability:
        """Of the token itself."""
    @property
    def rank(self) -> int:
        """1 + the number of tokens that are more probable."""
    @property
    def most_probable(self) -> list[TokenLogProbability]:
        """As many as `top_log_probabilities` says, the highest first."""

class Completion:
    """A generated text and its figures. str() gives the text."""

    @property
    def text(self) -> str:
        """Without the prompt and the stop text."""
    @property
    def tokens(self) -> list[int]:
        """Without the one that ended the text."""
    @property
    def finish_reason(self) -> str:
        """Why it ended: "stop" (an end token, a stop text, a complete form), "length" or "cancelled"."""
    @property
    def scores(self) -> list[TokenScore]:
        """One for each token, with `log_probabilities`; else empty."""
    @property
    def prompt_scores(self) -> list[TokenScore]:
        """One for each token of the prompt, with `prompt_log_probabilities`; else empty. The first one has no
        probability: NaN."""
    @property
    def end_token(self) -> int | None:
        """The token that ended the text."""
    @property
    def stop_text(self) -> str:
        """The stop that ended the text; empty: none."""
    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
    @property
    def cached_tokens(self) -> int:
        """Those of the prompt whose keys and values were in memory."""
    @property
    def draft_tokens(self) -> int:
        """Tokens that were guessed and run."""
    @property
    def accepted_draft_tokens(self) -> int:
        """Of those, the ones that the model chose."""
    @property
    def queue_time(self) -> float:
        """Seconds until its first run."""
    @property
    def time_to_first_token(self) -> float:
        """Seconds."""
    @property
    def time(self) -> float:
        """Seconds of all tokens, with the first one."""

class ToolCall:
    """A call of a function that a model asks for."""

    @property
    def id(self) -> str:
        """As the tool's message has it in "tool_call_id"."""
    @property
    def name(self) -> str:
        """Of the function."""
    @property
    def arguments(self) -> str:
        """A JSON object as text; empty: no arguments."""

class ChatDelta:
    """A part of an answer, as it becomes certain."""

    @property
    def kind(self) -> str:
        """One of "content", "reasoning", "tool_call" (a call begins) and "arguments" (of the call)."""
    @property
    def text(self) -> str:
        """Appended to the content, the reasoning or the arguments."""
    @property
    def index(self) -> int:
        """Of the call."""
    @property
    def id(self) -> str:
        """Of the call that begins."""
    @property
    def name(self) -> str:
        """The function of the call that begins."""

class ChatCompletion:
    """An answer of a model. str() gives its content."""

    @property
    def content(self) -> str:
        """The answer without reasoning and calls."""
    @property
    def reasoning(self) -> str:
        """What the model thought before the content; may be empty."""
    @property
    def tool_calls(self) -> list[ToolCall]:
        """Calls of the functions in `tools`."""
    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message, to be appended to the conversation."""
    @property
    def finish_reason(self) -> str:
        """As that of gpux.Completion."""
    @property
    def completion(self) -> Completion:
        """The whole text, with the markers of reasoning and calls, and its figures."""

class GenerationMemory:
    """The memory that a model takes."""

    @property
    def weight_bytes(self) -> int:
        """As the file has them: a provider may keep them in another layout, too."""
    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values."""
    @property
    def tokens(self) -> int:
        """Of the context that is counted."""
    @property
    def total_bytes(self) -> int:
        """Weights, and keys and values of one text that fills this context."""

class HeldTextStream:
    def next(self) -> str | None: ...
    def cancel(self) -> None: ...
    def completion(self) -> Completion: ...

class HeldChatStream:
    def next(self) -> ChatDelta | None: ...
    def cancel(self) -> None: ...
    def completion(self) -> ChatCompletion: ...

_ChatMessages = Sequence[tuple[str, str, str, Sequence[tuple[str, str, str]], str, str]]

class LoadedGenerator:
    def __init__(
        self,
        model: str,
        settings: dict[str, Any],
        options: dict[str, Any],
        progress: Callable[[Any], object] | None,
    ) -> None: ...
    def close(self) -> None: ...
    def generate(self, prompt: str, settings: dict[str, Any]) -> Completion: ...
    def stream(self, prompt: str, settings: dict[str, Any]) -> HeldTextStream: ...
    def chat(
        self,
        messages: _ChatMessages,
        tools: str,
        tool_choice: tuple[str, str, bool],
        template_values: str,
        reasoning: str,
        settings: dict[str, Any],
    ) -> ChatCompletion: ...
    def stream_chat(
        self,
        messages: _ChatMessages,
        tools: str,
        tool_choice: tuple[str, str, bool],
        template_values: str,
        reasoning: str,
        settings: dict[str, Any],
    ) -> HeldChatStream: ...
    def chat_prompt(
        self, messages: _ChatMessages, tools: str, template_values: str, reasoning: str, add_generation_prompt: bool
    ) -> str: ...
    def memory_needed(self, tokens: int) -> int: ...
    @property
    def has_chat_template(self) -> bool: ...
    @property
    def context_length(self) -> int: ...
    @property
    def verdict(self) -> Verdict: ...

def generation_memory(model: str, tokens: int, settings: dict[str, Any]) -> GenerationMemory: ...

class LoadedImageEmbedder:
    def __init__(self, model: str, settings: dict[str, Any], workers: int) -> None: ...
    def close(self) -> None: ...
    def encode(self, images: list[object], dimensions: int, normalize: bool | None) -> NDArray[np.float32]: ...
    @property
    def dimension(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...

class LoadedImageClassifier:
    def __init__(
        self, model: str, labels: Sequence[str], label_template: str, settings: dict[str, Any], workers: int
    ) -> None: ...
    def close(self) -> None: ...
    def classify(self, images: list[object]) -> list[list[LabelScore]]: ...
    @property
    def verdict(self) -> Verdict: ...

class LabelScore:
    """A label and its score."""

    @property
    def label(self) -> str:
        """As in `id2label` of config.json, or in `labels` of gpux.yml."""
    @property
    def score(self) -> float:
        """Softmax of the logits, or their sigmoid for models with several labels per text: 0 to 1. `activation` in
        gpux.yml takes precedence.
        """

class RankedText:
    """A text of a list, and how well it fits the query."""

    @property
    def index(self) -> int:
        """Of the text in the list."""
    @property
    def score(self) -> float:
        """Sigmoid of the logit, 0 to 1."""

class TextEntity:
    """Something named in a text."""

    @property
    def label(self) -> str:
        """Such as "PER"."""
    @property
    def text(self) -> str:
        """The characters from `begin` to `end`."""
    @property
    def score(self) -> float:
        """0 to 1."""
    @property
    def begin(self) -> int:
        """Index into the text."""
    @property
    def end(self) -> int:
        """Index behind its last character."""

class TextAnswer:
    """A part of a context that answers a question."""

    @property
    def text(self) -> str:
        """Empty: the context holds no answer."""
    @property
    def score(self) -> float:
        """0 to 1."""
    @property
    def begin(self) -> int:
        """Index into the context."""
    @property
    def end(self) -> int:
        """Index behind its last character."""

class LoadedPipeline:
    def __init__(self, model: str, settings: dict[str, Any]) -> None: ...
    def close(self) -> None: ...
    def classify(self, texts: Sequence[str]) -> list[list[LabelScore]]: ...
    def zero_shot(
        self, texts: Sequence[str], labels: Sequence[str], hypothesis_template: str, multi_label: bool
    ) -> list[list[LabelScore]]: ...
    def rank(self, query: str, texts: Sequence[str]) -> list[RankedText]: ...
    def find_entities(self, text: str) -> list[TextEntity]: ...
    def answer(self, question: str, context: str) -> TextAnswer: ...
    @property
    def task(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...

class CollectionFacts:
    """What all vectors of a collection have in common; stored with it."""

    @property
    def model(self) -> str:
        """The model's name."""
    @property
    def digest(self) -> str:
        """ "sha256:…" of its ONNX file, with those of external data."""
    @property
    def precision(self) -> str:
        """That the provider computed in, such as "fp32"."""
    @property
    def dimension(self) -> int:
        """Elements of a vector."""
    @property
    def distance(self) -> str:
        """One of "cosine", "dot", "euclidean", "manhattan"."""
    @property
    def is_normalized(self) -> bool:
        """Whether vectors have the length 1."""
    @property
    def prompt(self) -> str:
        """Put before each stored text; may be empty."""
    @property
    def sparse_dimension(self) -> int:
        """Entries of the vocabulary of the sparse vectors; 0: there are none."""

class CollectionHit:
    """A stored text that was found."""

    @property
    def id(self) -> str:
        """64 hexadecimal digits."""
    @property
    def score(self) -> float:
        """Higher is nearer; distances are negative."""
    @property
    def text(self) -> str:
        """As it was stored, without its prompt."""
    @property
    def payload(self) -> dict[str, Any]:
        """What was stored with it."""

class CollectionSearchOptions:
    def __init__(
        self, count: int, where: Sequence[str], is_exact: bool, is_hybrid: bool, embedding: EmbeddingOptions | None
    ) -> None: ...

class OpenCollection:
    def __init__(self, url: str) -> None: ...
    def close(self) -> None: ...
    def upsert(
        self,
        embedder: LoadedEmbedder,
        texts: Sequence[tuple[str, str]],
        embedding: EmbeddingOptions,
        is_hybrid: bool,
    ) -> int: ...
    def update_index(self) -> None: ...
    def count(self) -> int: ...
    def facts(self) -> CollectionFacts | None: ...
    def search(
        self,
        embedder: LoadedEmbedder,
        query: str,
        options: CollectionSearchOptions,
        reranker: LoadedPipeline | None,
    ) -> list[CollectionHit]: ...
    def search_vector(self, vector: NDArray[np.float32], options: CollectionSearchOptions) -> list[CollectionHit]: ...

class SearchHit:
    """A vector that was found."""

    @property
    def index(self) -> int:
        """Of the vector, in the order in which they were added."""
    @property
    def score(self) -> float:
        """Cosine similarity to the query, -1 to 1."""
    @property
    def id(self) -> str:
        """Empty if unknown."""
    @property
    def text(self) -> str:
        """Empty if unknown."""

class VectorIndex:
    def __init__(self) -> None: ...
    @staticmethod
    def open(place: str | PathLike[str]) -> VectorIndex: ...
    def add(self, vector: NDArray[np.float32], text: str, id: str) -> None: ...  # noqa: A002
    def search(self, query: NDArray[np.float32], count: int, threads: int, similarity: str) -> list[SearchHit]: ...
    @property
    def size(self) -> int: ...
    @property
    def dimension(self) -> int: ...

class StoredPackage:
    """A package in the store, under one of its names."""

    @property
    def name(self) -> str:
        """Such as "digits"."""
    @property
    def tag(self) -> str:
        """Such as "1.0.0" or "latest"."""
    @property
    def id(self) -> str:
        """The digest: "sha256:" and 64 hexadecimal digits."""
    @property
    def created(self) -> str:
        """Such as "2026-01-31T12:00:00Z", in UTC."""
    @property
    def size_bytes(self) -> int:
        """Of all its files."""
    @property
    def damage(self) -> str:
        """What is wrong with it; empty: nothing that shows without reading its files, as `Store.verify()` does."""
    @property
    def source(self) -> str:
        """The address that it was pulled from; empty: it was made on this machine."""
    @property
    def revision(self) -> str:
        """The commit of the source; empty where the source has none."""

def pull(
    reference: str,
    name: str,
    file: str,
    precision: str,
    sha256: str,
    connections: int,
    home: str,
    verify_key: str,
    progress: Callable[[str, int, int], object] | None,
) -> StoredPackage: ...

class PushedModel:
    """What a push did."""

    @property
    def name(self) -> str:
        """`registry.example/team/digits:1.0.0`"""
    @property
    def digest(self) -> str:
        """The digest of the manifest: "sha256:" and 64 hexadecimal digits."""
    @property
    def existed(self) -> int:
        """The number of contents that the repository had."""
    @property
    def mounted(self) -> int:
        """The number of contents that another repository of the registry had."""
    @property
    def sent(self) -> int:
        """The number of contents that were uploaded."""
    @property
    def sent_bytes(self) -> int:
        """The bytes that were uploaded."""
    @property
    def signature_tag(self) -> str:
        """The tag of the signature; empty: not signed."""

def push(name: str, sign_key: str, home: str, progress: Callable[[str, int, int], object] | None) -> PushedModel: ...
def save_packages(models: list[str], file: str, home: str) -> list[StoredPackage]: ...
def load_packages(file: str, names: list[str], home: str) -> list[StoredPackage]: ...

class ModelStore:
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, home: str | PathLike[str]) -> None: ...
    def list(self) -> builtins.list[StoredPackage]: ...
    def find(self, model: str) -> StoredPackage | None: ...
    def build(self, model: str, name: str, settings: dict[str, Any]) -> StoredPackage: ...
    def import_folder(self, folder: str | PathLike[str], name: str, settings: dict[str, Any]) -> StoredPackage: ...
    def tag(self, model: str, name: str) -> StoredPackage: ...
    def remove(self, name: str) -> None: ...
    def prune(self) -> int: ...
    def verify(self, model: str) -> builtins.list[str]: ...
