#!/usr/bin/env python3
"""Writes the seeds in fuzz/corpus: one good input of each kind, from which the fuzzers go astray.

Needs the Python packages onnx and numpy; looks for them in .deps/python as well. What fuzzers found lies beside the seeds,
under the name of what was wrong; this leaves it as it is.
"""

import base64
import gzip
import hashlib
import io
import json
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / ".deps/python/lib/python3.11/site-packages"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODELS = HERE.parent / "tests/models"
ARRAYS = HERE.parent / "tests/tensor/references"

# As declared.h takes types off an input.
FORMS = ["any", "scalar", "n", "n3", "23", "20n", "sequence", "sequences", "map", "maps", "optional", "optional_sequence",
         "optionals", "sparse", "opaque"]


def element(number):
    return chr(ord("a") + number)


def typed(number, form):
    return (element(number) + chr(ord("a") + FORMS.index(form))).encode()


def write(fuzzer, name, content):
    file = HERE / "corpus" / fuzzer / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json():
    for name, number, form, text in [
        ("floats", TensorProto.FLOAT, "n3", '[[1, -2.5e-3, 0.1], ["NaN", Infinity, "-Infinity"]]'),
        ("doubles", TensorProto.DOUBLE, "any", "[[[4.9e-324, 1.7976931348623157e308]], [[0, -0.0]]]"),
        ("halves", TensorProto.FLOAT16, "n", "[65504, 6e-8, 0.333333]"),
        ("bfloat16", TensorProto.BFLOAT16, "n", "[3.38e38, 1e-40]"),
        ("float8", TensorProto.FLOAT8E5M2, "n", "[57344, 1.5e-5]"),
        ("int4", TensorProto.INT4, "23", "[[-8, 7, 0], [1, 2, 3.0]]"),
        ("uint64", TensorProto.UINT64, "scalar", "18446744073709551615"),
        ("int64", TensorProto.INT64, "n", "[-9223372036854775808, 1e3]"),
        ("bools", TensorProto.BOOL, "n", "[true, false, 0, 1]"),
        ("strings", TensorProto.STRING, "n", '["a\\u00e9\\ud83d\\ude00", "\\"\\\\\\n", "é"]'),
        ("empty", TensorProto.FLOAT, "20n", "[[], []]"),
        ("sequence", TensorProto.FLOAT, "sequence", "[[1, 2], [3]]"),
        ("sequences", TensorProto.INT32, "sequences", "[[[1], [2]], []]"),
        ("map", TensorProto.FLOAT, "map", '{"cat": 1, "dog": 2.5}'),
        ("maps", TensorProto.FLOAT, "maps", '[{"1": 0.5}, {"-2": 1, "3": 2}]'),
        ("none", TensorProto.FLOAT, "optional", "null"),
        ("optional", TensorProto.FLOAT, "optional_sequence", "[[1], [2, 3]]"),
    ]:
        write("json", name, typed(number, form) + text.encode())
    write("envelope", "object", '{"x": [[1, 2], [3, 4]], "text \\u00e9": ["a", "}"], "none": null}')
    write("envelope", "list", '[{"x": [1.5]}, {"x": [NaN]}, []]')
    write("envelope", "lines", '{"x": 1}\n\n{"x": [\n2]}\n[3]\n')


def write_constraints():
    # The first byte says which kind: a JSON schema, an expression or a grammar.
    for name, schema in [
        ("object", {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9},
                                                     "age": {"type": "integer", "minimum": 0, "maximum": 120}},
                    "required": ["name"], "additionalProperties": False}),
        ("recursive", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {
            "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["next"]}}}),
        ("one_of", {"oneOf": [{"$ref": "#/definitions/a"}, {"type": "array", "items": [True], "additionalItems": False}],
                    "definitions": {"a": {"const": {"b": [1, 2.5, None, "é"]}}}}),
        ("all_of", {"allOf": [{"minProperties": 1}, {"patternProperties": {"^x\\d+$": {"multipleOf": 3}}}], "type": "object"}),
        ("formats", {"prefixItems": [{"format": name} for name in ("date", "date-time", "uuid", "ipv6", "uri", "email")]}),
        ("numbers", {"items": {"type": "number", "exclusiveMinimum": -2.75, "maximum": 3.1925}, "minItems": 2, "maxItems": 9}),
        ("patterns", {"enum": ["a", 1], "anyOf": [{"pattern": "^[^\"]+$|b{2,5}"}, {"minLength": 3}]}),
    ]:
        write("constraint", name, "c" + json.dumps(schema, ensure_ascii=False))
    for name, expression in [("words", "^(yes|no)( \\w+){1,4}\\.$"), ("classes", "(?i)[^a-f\\d]\\p{Greek}?|日[本é]{2,}")]:
        write("constraint", name, "a" + expression)
    for name, grammar in [
        ("sum", 'start: sum\nsum: NUM (/ [+-] / NUM)*\nNUM: /[0-9]+/\n%ignore " "\n'),
        ("schema", 'start: "<" %json {"type": "integer", "minimum": 3} ">" | nested\nnested: "(" nested? ")"\n'),
        ("imports", '%import common.INT\nstart: (INT ",")~2..5 x*\nx[suffix="."]: /[a-z]+/\n'),
    ]:
        write("constraint", name, "b" + grammar)
    write("response_format", "schema", json.dumps({"type": "json_schema", "json_schema": {
        "name": "x", "strict": True, "schema": {"type": "object", "properties": {"a": {"minimum": 1.5}}}}}))
    write("response_format", "openai", json.dumps({"model": "m", "messages": [{"role": "user", "content": "é"}],
                                                   "response_format": {"type": "json_object"}, "guided_json": None}))
    write("response_format", "guided", json.dumps({"guided_choice": ["yes", "no (b)"], "guided_grammar": None}))
    write("response_format", "guided_json", json.dumps({"guided_json": json.dumps({"const": 1})}))
    write("response_format", "number", '{"guided_json":"{\\"minimum\\": 1e999}"}')
    write("response_format", "ollama", json.dumps({"format": {"type": "object"}}))


def write_conversations():
    call = json.dumps({"name": "f", "arguments": {"x": [1, "é"]}}, ensure_ascii=False)
    # The first character is the form's place in src/generation/tool_call_formats.cpp; O has reasoning, too.
    for name, first, text in [
        ("plain", "\x13", "An answer.\n"),
        ("harmony", "\0", '<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>commentary to=functions.f '
                          '<|constrain|>json<|message|>{"x": 1}<|call|>'),
        ("mistral_named", "\x01", '[TOOL_CALLS]f[ARGS]{"x": "[ARGS]"}'),
        ("mistral", "\x02", f"[TOOL_CALLS] [{call}, {call}]"),
        ("kimi", "\x03", '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}'
                         '<|tool_call_end|><|tool_calls_section_end|>'),
        ("deepseek_v3", "\x04", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```'
                                '<｜tool▁call▁end｜><｜tool▁calls▁end｜>'),
        ("command", "\x06", '<|START_ACTION|>[{"tool_name": "f", "parameters": {}}]<|END_ACTION|>'
                            '<|START_RESPONSE|>a<|END_RESPONSE|>'),
        ("lfm", "\x07", '<|tool_call_start|>[f(x=[1, "a"], y=None)]<|tool_call_end|>'),
        ("phi", "\x09", f"functools[{call}]"),
        ("minimax", "\x0a", '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n'
                            '</minimax:tool_call>'),
        ("coder", "\x0c", "<tool_call>\n<function=f>\n<parameter=x>\n[1]\n</parameter>\n</function>\n</tool_call>"),
        ("glm", "\x0d", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"),
        ("hermes", "O", f"<think>\nwhy\n</think>\n\nNow.\n<tool_call>\n{call}\n</tool_call>\n<tool_call>\n{call}\n</tool_call>"),
        ("llama", "\x10", '<|python_tag|>{"name": "get_weather", "parameters": {}}'),
        ("gemma", "\x12", '```tool_code\nf(x=[1, "a"], y=None)\n```'),
    ]:
        write("answer_parser", name, first + text)
    templates = HERE.parent / "tests/text/chat/templates"
    for file in sorted(templates.iterdir()):
        write("chat_template", file.stem, file.read_text())
    values = json.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": "é"}]}], "n": 3})
    write("chat_template", "values", "{%- for m in messages recursive %}{{ m.content | tojson(indent=2) }}"
                                     "{{ m['role'][::-1].title() }}{%- endfor %}{{ range(n) | list }}\0" + values)


def write_registries():
    digest = "sha256:" + "a" * 64
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.cncf.model.config.v1+json", "digest": digest, "size": 2},
                "layers": [{"mediaType": "application/vnd.cncf.model.weight.v1.raw", "digest": digest, "size": 2,
                            "annotations": {"org.cncf.model.filepath": "model.onnx"}}],
                "subject": {"mediaType": "x", "digest": digest, "size": 3}}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 5,
         "artifactType": "application/vnd.cncf.model.manifest.v1+json"},
        {"mediaType": "x", "digest": digest, "size": 5, "platform": {"os": "unknown", "architecture": "unknown"}}]}
    config = {"auths": {"ghcr.io": {"auth": "Z3B1eDpzZWNyZXQ="}, "https://index.docker.io/v1/": {"identitytoken": "x"}},
              "credHelpers": {"gcr.io": "gcloud"}, "credsStore": "desktop", "HttpHeaders": {"a": "b"}}
    payload = {"critical": {"identity": {"docker-reference": "a"}, "image": {"docker-manifest-digest": digest},
                            "type": "cosign container image signature"}, "optional": None}
    for name, kind, document in [
        ("manifest", "m", manifest), ("index", "m", index), ("config", "c", config), ("payload", "s", payload),
        ("token", "t", {"token": "abc", "access_token": "abc", "expires_in": 300, "refresh_token": "r"}),
        ("helper", "h", {"ServerURL": "a", "Username": "<token>", "Secret": "s"}),
        ("errors", "e", {"errors": [{"code": "DENIED", "message": "no", "detail": {}}]}),
    ]:
        write("registry_json", name, kind + json.dumps(document))
    write("www_authenticate", "bearer", 'Bearer realm="https://a/token",service="s",scope="repository:a:pull,push"')
    write("www_authenticate", "several", 'Negotiate, NTLM abc==, Basic realm="a \\"b\\"", Bearer realm=x')
    for kind, number in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=number) as archive:
            for name, content in [("oci-layout", b"{}"), ("blobs/sha256/" + "b" * 64, b"x" * 600),
                                  ("n" * 90 + "/" + "m" * 60, b"")]:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        write("tar", kind, stream.getvalue()[:4096])


def write_weights():
    def weights(tensors, data):
        header = json.dumps(tensors).encode()
        return struct.pack("<Q", len(header)) + header + data

    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    tensors = {"__metadata__": {"format": "pt"}, "f": tensor("F32", [2, 1], 0, 8), "h": tensor("F16", [2], 8, 12),
               "b": tensor("BF16", [], 12, 14), "d": tensor("F64", [0, 3], 14, 14), "i": tensor("I64", [1], 14, 22),
               "other": tensor("F4", [1 << 40], 14, 22)}  # fmt: skip
    write("safetensors", "types", b"." + weights(tensors, bytes(22)))
    write("safetensors", "index", "i" + json.dumps({"metadata": {"total_size": 8}, "weight_map": {"f": "a.safetensors"}}))


def write_arrays():
    for name, number in [
        ("grid_f4", TensorProto.FLOAT), ("grid_fortran_f4", 0), ("grid_big_endian_i8", TensorProto.INT64),
        ("grid_b1", TensorProto.BOOL), ("grid_f2", TensorProto.FLOAT), ("grid_version_3", 0), ("empty_f4", 0),
        ("scalar_f4", 0), ("raw_bfloat16", TensorProto.BFLOAT16), ("raw_float8e4m3fn", TensorProto.FLOAT8E4M3FN),
        ("raw_int4", TensorProto.INT4), ("text_u", TensorProto.STRING), ("text_s", 0), ("text_u_fortran", 0),
        ("cube_fortran_i2", TensorProto.INT32),
    ]:  # fmt: skip
        write("npy", name, element(number).encode() + (ARRAYS / f"{name}.npy").read_bytes())
    for name in ["stored", "deflated"]:
        write("npz", name, (ARRAYS / f"{name}.npz").read_bytes())
    file = HERE / "corpus/npz/empty"
    with zipfile.ZipFile(file, "w"):
        pass


def write_values():
    floats = numpy_helper.from_array(np.array([[1, 2.5, -3], [4, 5, np.nan]], np.float32), "x")
    typed_floats = helper.make_tensor("x", TensorProto.FLOAT, [2], [1.5, -2])
    typed_halves = helper.make_tensor("x", TensorProto.FLOAT16, [2], [1.5, -2])
    typed_int4 = helper.make_tensor("x", TensorProto.INT4, [3], [-8, 7, 1])
    strings = helper.make_tensor("x", TensorProto.STRING, [2], [b"a", "é".encode()])
    longs = helper.make_tensor("x", TensorProto.INT64, [3], [-1, 0, 2**62])
    sequence = onnx.SequenceProto(name="x", elem_type=onnx.SequenceProto.TENSOR, tensor_values=[floats, typed_floats])
    sequences = onnx.SequenceProto(elem_type=onnx.SequenceProto.SEQUENCE, sequence_values=[sequence, sequence])
    optional = onnx.OptionalProto(name="x", elem_type=onnx.OptionalProto.TENSOR, tensor_value=longs)
    optional_sequence = onnx.OptionalProto(elem_type=onnx.OptionalProto.SEQUENCE, sequence_value=sequence)
    none = onnx.OptionalProto(name="x", elem_type=onnx.OptionalProto.UNDEFINED)
    for name, form, message in [
        ("raw", "any", floats), ("typed_floats", "any", typed_floats), ("typed_halves", "any", typed_halves),
        ("typed_int4", "any", typed_int4), ("strings", "any", strings), ("longs", "any", longs),
        ("sequence", "sequence", sequence), ("sequences", "sequences", sequences), ("optional", "optional", optional),
        ("bare", "optional", longs), ("optional_sequence", "optional_sequence", optional_sequence),
        ("none", "optional", none),
    ]:  # fmt: skip
        write("value_file", name, typed(TensorProto.FLOAT, form) + message.SerializeToString())


def products():
    """A Gather, a Gemm of turned weights and a MatMul inside an If, with weights in an initializer and in a Constant."""
    node, info = helper.make_node, helper.make_tensor_value_info
    weights = np.arange(64, dtype=np.float32).reshape(16, 4)
    inner = helper.make_graph([node("MatMul", ["g", "table"], ["z"])], "inner", [],
                              [info("z", TensorProto.FLOAT, None)])
    nodes = [node("Gather", ["table", "ids"], ["rows"]),
             node("Constant", [], ["w"], value=numpy_helper.from_array(weights[:3])),
             node("Gemm", ["rows", "w", "b"], ["g"], transB=1, alpha=0.5),
             node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    graph = helper.make_graph(
        nodes, "products", [info("ids", TensorProto.INT64, ["n"]), info("c", TensorProto.BOOL, [])],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "table"), numpy_helper.from_array(weights[0, :3].copy(), "b")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def attention():
    """An attention of two heads with a bias, and the norm of a sum behind it."""
    node, info = helper.make_node, helper.make_tensor_value_info
    value = info("x", TensorProto.FLOAT, ["batch", "sequence", 4])
    heads, flat = np.array([0, 0, 2, 2]), np.array([0, 0, 4])
    nodes = [node("Reshape", ["x", "heads"], ["split"]),
             node("Transpose", ["split"], ["queries"], perm=[0, 2, 1, 3]),
             node("Transpose", ["split"], ["keys"], perm=[0, 2, 3, 1]),
             node("MatMul", ["queries", "keys"], ["product"]), node("Add", ["product", "bias"], ["scores"]),
             node("Softmax", ["scores"], ["shares"], axis=-1), node("MatMul", ["shares", "queries"], ["mixed"]),
             node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
             node("Reshape", ["turned", "flat"], ["attended"]), node("Add", ["attended", "x"], ["sum"]),
             node("LayerNormalization", ["sum", "weight"], ["y"], axis=-1)]
    graph = helper.make_graph(
        nodes, "attention", [value, info("bias", TensorProto.FLOAT, ["batch", 1, 1, "sequence"])],
        [info("y", TensorProto.FLOAT, ["batch", "sequence", 4])],
        [numpy_helper.from_array(heads, "heads"), numpy_helper.from_array(flat, "flat"),
         numpy_helper.from_array(np.ones(4, np.float32), "weight")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def write_models():
    for name in ["add", "branch", "external_data", "external_missing", "external_outside", "identity_int4",
                 "local_function", "map_input", "optional_input", "scale_ir3", "sequence_output", "split",
                 "string_concat", "unknown_rank", "zipmap_string"]:  # fmt: skip
        write("model", name, (MODELS / f"{name}.onnx").read_bytes())
    write("model", "attention", attention())
    for name in ["branch", "external_data", "local_function", "matmul_chain", "scale_ir3"]:
        write("quantize", name, (MODELS / f"{name}.onnx").read_bytes())
    write("quantize", "products", products())


def write_projects():
    whole = (HERE.parent / "tests/project/whole.yml").read_bytes()
    head = "name: digits\nmodel: {source: ./digits.onnx, files: [labels.txt]}\n"
    write("project", "whole", whole)
    write("project", "variables", head + "version: ${UNSET:-1.2.0}\ndescription: '${FOUR} $$5 ${EMPTY}'\n"
          "runtime:\n  batch_size: ${FOUR}\n")
    write("project", "aliases", head + "inputs: &i\n  x: {type: 'seq(map(int64, tensor(float)))'}\noutputs: *i\n")
    write("project", "block", head + "description: |\n  two\n  lines\nmetadata:\n  ? author\n  : >-\n    me\n...\n")
    write("project", "runtime", head + "runtime:\n  providers: [tensorrt, {cuda: {device_id: 1}}, cpu]\n"
          "  provider_libraries: {Mine: ./libmine.so}\n  strict: nodes\n  timeout: 500ms\n"
          "  threads: {intra: 4}\n  profile: ./out\n")


def write_pictures():
    folder = HERE.parent / "tests/image/pictures"
    # As picture.cpp takes the recipe off an input: color, layout, mode, fit.
    for recipe, name in enumerate(["jpeg-pixel.jpg", "jpeg-gray-progressive.jpg", "jpeg-exif-6.jpg", "jpeg-cmyk.jpg",
                                   "jpeg-restarts.jpg", "png-interlaced-gray-1.png", "png-palette-alpha.png",
                                   "png-gray-16.png", "png-exif-6.png", "png-color-key.png", "webp-exif-8.webp",
                                   "webp-alpha.webp", "webp-lossless.webp"]):  # fmt: skip
        write("picture", name.split(".")[0], bytes([recipe * 21 % 64]) + (folder / name).read_bytes())
    write("picture", "animation", b"\0" + (folder.parent / "animation.webp").read_bytes())
    small = (folder / "png-pixel.png").read_bytes()
    write("picture", "base64", b"\x11" + base64.encodebytes(small))
    write("picture", "url", b"\x22data:image/png;base64," + base64.b64encode(small))


def write_store():
    digests = ["sha256:" + digit * 64 for digit in "abc"]
    key = "org.cncf.model.filepath"
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": "application/vnd.cncf.model.manifest.v1+json",
        "config": {"mediaType": "application/vnd.cncf.model.config.v1+json", "digest": digests[0], "size": 9},
        "layers": [
            {"mediaType": "application/vnd.cncf.model.weight.config.v1.raw", "digest": digests[1], "size": 50,
             "annotations": {key: "gpux.yml"}},
            {"mediaType": "application/vnd.cncf.model.weight.v1.raw", "digest": digests[2], "size": 1000,
             "annotations": {key: "a/digits.onnx"}},
            {"mediaType": "application/vnd.cncf.model.weight.v1.raw", "digest": digests[2], "size": 1000,
             "annotations": {key: "cuda.onnx", "dev.gpux.variant.provider": "cuda",
                             "dev.gpux.variant.runtime-version": "1.24.4", "dev.gpux.variant.device": "",
                             "dev.gpux.variant.optimization-level": "extended", "dev.gpux.variant.machine": "x"}},
        ],
        "annotations": {"org.opencontainers.image.title": "digits", "org.opencontainers.image.version": "1.0.0",
                        "dev.gpux.model": "a/digits.onnx", "dev.gpux.provider": "cuda",
                        "dev.gpux.metadata.author": "me"},
    }  # fmt: skip
    write("package", "whole", json.dumps(manifest))
    foreign = {"config": manifest["config"],
               "layers": [{"mediaType": "text/plain", "digest": digests[0], "size": 1,
                           "annotations": {"org.cnai.model.filepath": "m.onnx"}}],
               "manifests": [{"digest": digests[1]}]}
    write("package", "foreign", json.dumps(foreign))

    def entry(digest, **annotations):
        return {"mediaType": manifest["mediaType"], "digest": digest, "size": 700, "annotations": annotations}

    name = "org.opencontainers.image.ref.name"
    index = {"schemaVersion": 2, "manifests": [
        entry(digests[0], **{name: "digits:1.0.0", "org.opencontainers.image.created": "2025-01-31T12:00:00Z"}),
        entry(digests[1], **{name: "host:5000/a/b:latest"}), entry(digests[2])]}  # fmt: skip
    write("index", "whole", json.dumps(index))
    write("index", "empty", '{"schemaVersion": 2, "manifests": []}')
    timings = [{"provider": "cuda", "milliseconds": 0.5}, {"provider": "cpu", "milliseconds": 1.5}]
    write("fastest", "whole", json.dumps({"provider": "cuda", "timings": timings}))
    timings = [{"provider": "cuda", "failure": "no driver"}, {"provider": "cpu", "milliseconds": 1.5}]
    write("fastest", "failed", json.dumps({"provider": "cpu", "timings": timings}))


def write_words():
    write("options", "single", "cuda\ndevice_id=1\ngpu_mem_limit=2GB\ncudnn_conv_algo_search=EXHAUSTIVE\n")
    write("options", "common", "tensorrt,cuda,cpu\ndevice=0\nmemory=1.5 GiB\nprecision=fp16\ncache_directory=/c\nthreads=4")
    write("options", "automatic", "auto")
    write("options", "list", "openvino,\nprecision=int8\ndevice_type=CPU")
    write("options", "own", "mine,TensorrtExecutionProvider,rocm")
    for name, text in [
        ("size", "1.5 GiB"), ("duration", "500ms"), ("integer", "-9223372036854775808"), ("reference", "a/b_c:1.0.0"),
        ("host", "localhost:5000/a/b:latest"), ("type", "optional(seq(map(int64, tensor(float))))"),
        ("sparse", "sparse_tensor(double)"), ("path", "a/../b.onnx"),
        ("message", "[ONNXRuntimeError] : 1 : FAIL : /onnxruntime/core/session.cc:71 void f(const int&) "
         "[with T = int] no such\n file"),
    ]:  # fmt: skip
        write("words", name, text)


def write_requests():
    head = "POST /v2/models/a%2Fb/infer?timeout=5&a=+%41 HTTP/1.1\r\nHost: x\r\n"
    chunks = "4;a=b\r\nWiki\r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\n"
    packed = gzip.compress(b"[1, 2, 3]" * 9, mtime=0)
    for name, text in [
        ("get", b"\x07GET http://x/a HTTP/1.0\r\nAccept-Encoding: gzip;q=0.5, *\r\nConnection: keep-alive\r\n\r\n"),
        ("length", f"\x10{head}Content-Length: 3\r\nInference-Header-Content-Length: 1\r\nExpect: 100-continue\r\n\r\nabc".encode()),
        ("chunks", f"\x40{head}Transfer-Encoding: chunked\r\n\r\n{chunks}".encode()),
        ("gzip", f"\x30{head}Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode() + packed),
        ("folded", b"\x20OPTIONS * HTTP/1.1\r\nHost: x\r\nA: b,\r\n c\r\nContent-Encoding: deflate\r\n\r\n"),
        (
            "form",
            b"\x30POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=\"b c\"\r\nContent-Length: 94\r\n\r\n"
            b"--b c\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a;b.png\"\r\n\r\n\x89PNG\r\n--b\r\n--b c--\r\n",
        ),
    ]:  # fmt: skip
        write("http_request", name, text)


def write_calls():
    def call(choice, header, binary=b"", told=True):
        text = json.dumps(header).encode()
        write("infer_request", name, bytes([choice]) + struct.pack("<H", len(text) if told else 0xFFFF) + text + binary)

    def tensor(datatype, shape, **more):
        return {"name": "x", "datatype": datatype, "shape": shape, **more}

    name = "json"
    call(0, {"id": "7", "inputs": [tensor("FP32", [1, 3], data=[1, 2.5, -3])], "parameters": {"priority": 1, "timeout": 9}}, told=False)
    name = "nested"
    call(4, {"inputs": [tensor("INT64", [2, 3], data=[[1, 2, 3], [4, 5, 6]])], "outputs": [{"name": "y", "parameters": {"classification": 2}}]}, told=False)
    name = "binary"
    call(0, {"inputs": [tensor("FP32", [1, 3], parameters={"binary_data_size": 12})], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}, bytes(12))
    name = "strings"
    call(1, {"inputs": [tensor("BYTES", [1, 3], parameters={"binary_data_size": 15})]}, b"\3\0\0\0abc\0\0\0\0\0\0\0\0")
    name = "two"
    call(128 + 2, {"inputs": [tensor("UINT8", [1, 3], data=[1, 2, 3]), {**tensor("BOOL", [2], data=[True, False]), "name": "z"}]}, told=False)
    write("infer_request", "raw", bytes([0, 0, 0]) + bytes(24))


def write_libraries():
    def library(entries, strings, first=0):
        """A file of one loaded segment with a dynamic section and its strings."""
        dynamic = 64 + 2 * 56
        table = dynamic + 16 * (len(entries) + 2)
        body = b"".join(struct.pack("<qQ", *entry) for entry in [*entries, (5, first + table), (0, 0)]) + strings
        head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
        size = dynamic + len(body)
        load = struct.pack("<IIQQQQQQ", 1, 5, 0, first, first, size, size, 4096)
        section = struct.pack("<IIQQQQQQ", 2, 6, dynamic, first + dynamic, 0, len(body), len(body), 8)
        return head + load + section + body

    strings = b"\0libcudnn.so.9\0$ORIGIN/../lib::/opt/lib\0"
    write("elf", "needs", library([(1, 1), (29, 15)], strings))
    write("elf", "moved", library([(1, 1), (1, 4), (15, 15)], strings, first=0x10000))
    write("elf", "none", library([], b"\0"))


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def member(number, content):
    """One field of a protobuf message: bytes and text by length, numbers as they are."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def write_messages():
    def tensor(name, datatype, shape, contents=None):
        text = member(1, name) + member(2, datatype) + member(3, b"".join(map(varint, shape)))
        return member(5, text if contents is None else text + member(5, contents))

    def parameter(number, name, value):
        return member(number, member(1, name) + member(2, value))

    def both(first, first_form, second, second_form):
        return typed(first, first_form) + typed(second, second_form)

    head = member(1, "m") + member(2, "1") + member(3, "id")
    floats, texts = np.array([1.5, -2, 3] * 2, "<f4").tobytes(), b"\x01\0\0\0a\0\0\0\0"
    pair = both(TensorProto.FLOAT, "n3", TensorProto.STRING, "n")
    write("grpc_request", "raw", pair + head + tensor("x", "FP32", [2, 3]) + tensor("t", "BYTES", [2]) +
          member(7, floats) + member(7, texts))  # fmt: skip
    write("grpc_request", "typed", pair + head + tensor("x", "FP32", [2, 3], member(6, floats)) +
          tensor("t", "BYTES", [2], member(8, "a") + member(8, "")))  # fmt: skip
    narrow = both(TensorProto.INT8, "n", TensorProto.BOOL, "n")
    write("grpc_request", "narrow", narrow + tensor("x", "INT8", [2], member(2, varint(127) + varint(2**64 - 128))) +
          tensor("t", "BOOL", [2], member(1, b"\0\x01")))  # fmt: skip
    halves = both(TensorProto.FLOAT16, "n", TensorProto.BFLOAT16, "scalar")
    write("grpc_request", "halves", halves + tensor("x", "FP16", [1]) + tensor("t", "BF16", []) + member(7, b"\0<") +
          member(7, b"\x80?"))  # fmt: skip
    best = member(6, member(1, "x") + parameter(2, "classification", member(2, 2)))
    write("grpc_request", "classified", pair + tensor("x", "FP32", [2, 3]) + member(7, floats) + best +
          parameter(4, "timeout", member(2, 1000)) + parameter(4, "priority", member(3, "3")))  # fmt: skip
    write("grpc_request", "mixed", pair + tensor("x", "FP32", [2, 3], member(6, floats)) + member(7, floats))


def write_texts_and_vectors():
    write("csv", "quotes", b'id,text\r\n1,"say ""a"", and\nb"\r\n\r\n2,\n"",x')
    packed = base64.b64encode(struct.pack("<2f", 1, 2)).decode()
    lines = [
        {"model": "m", "digest": "sha256:a", "dimension": 2, "level": None, "vector": [0.5, -1]},
        {"id": 7, "digest": "sha256:a", "encoding": "int8", "scale": 0.5, "vector": [1, -127], "text": "a"},
        {"digest": "sha256:a", "encoding": "base64", "vector": packed},
        {"hash": "h", "vector": [1, 2], "metadata": {"model": "m", "digest": "sha256:a", "text": "b"}},
    ]
    write("stored_vectors", "lines", "".join(json.dumps(line) + "\n" for line in lines).encode())


def write_vectors_files():
    def filled(content):
        return content + b"\0" * (-len(content) % 8)

    def segment(kind, count, body):
        return b"GPUXSEG1" + struct.pack("<IIQ", kind, count, len(filled(body))) + hashlib.sha256(filled(body)).digest() + filled(body)

    def points(vectors, first, replaced=()):
        body = filled(struct.pack(f"<II{len(replaced)}I", len(replaced), 0, *replaced))
        body += filled(b"".join(struct.pack("<2f", *vector) for vector in vectors))
        entries = []
        for number, _ in enumerate(vectors, start=first):
            text = f"text {number}".encode()
            sparse = struct.pack("<I2I2f", 2, 1, 5 + number, 0.5, 2)
            entries.append(sparse + struct.pack("<I", len(text)) + text + json.dumps({"a": number % 2, "b": [1, {"c": None}]}).encode())
        places = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
        body += struct.pack(f"<{len(places)}Q", *places)
        body += b"".join(hashlib.sha256(bytes([number])).digest() for number in range(first, first + len(vectors)))
        return segment(1, len(vectors), body + b"".join(entries))

    def graph(count):
        # usearch's: a header, the level of each node, and the nodes, each beside all others.
        body = struct.pack("<5Q", count, 16, 32, 0, 0) + struct.pack(f"<{count}h", *[0] * count)
        for node in range(count):
            others = [other for other in range(count) if other != node]
            body += struct.pack("<QhI32I", node, 0, len(others), *others, *[0] * (32 - len(others)))
        return segment(2, count, body)

    facts = json.dumps({"model": "m", "digest": "sha256:a", "precision": "fp32", "dimension": 2, "distance": "cosine",
                        "is_normalized": True, "prompt": "", "sparse_dimension": 9}).encode()  # fmt: skip
    header = filled(b"GPUXVEC1" + struct.pack("<II", len(facts), 0) + hashlib.sha256(facts).digest() + facts)
    some = [(1, 0), (0.5, 0.5), (0, 1), (-1, 0.25)]
    write("vectors_file", "points", header + points(some, 0))
    write("vectors_file", "replaced", header + points(some, 0) + points([(2, 2), (0, 0)], 4, [1]))
    write("vectors_file", "graph", header + points(some, 0) + graph(4) + points([(3, 1)], 4, [0]))
    write("vectors_file", "graph_last", header + points(some, 0) + graph(4))


def write_events():
    event = {"plugin": "net", "operation": "update", "data": {"dev": "eth0", "n": [1, 2.5, None]}, "metadata": {"u": "é"}}
    write("event", "whole", json.dumps({**event, "id": 7, "timestamp": 5}))
    write("event", "text", '"a \\u00e9 \\ud83d\\ude00"')
    write("event", "other", '{"plugin_id": "p", "action": {}, "level": "info", "x": -1e30}')
    sources = [
        {"name": "a", "directory": "events"},
        {"name": "b", "socket": "b.sock"},
        {"name": "c", "match": ["type='signal'"], "bus": "session"},
    ]
    state = {"output": "out", "level": "high", "downgrade": {"level": "low", "above": 10}, "rescan": "5s",
             "limits": {"event_bytes": "1MiB", "event_depth": 8}, "workers": 2, "device": 0, "sources": sources}  # fmt: skip
    write("state_file", "whole", json.dumps(state, indent="\t"))
    write("state_file", "short", '{"output": "/o", "sources": {"events": "/e", "log": {"file": "l"}}}')


def write_encoder_runs():
    # As tests/encoder/checked_run.h reads them.
    vectors, hidden, mask, types, threads = 1, 2, 4, 8, 16
    all_count, none, front, some, last = 0, 1, 2, 4, 6

    def run(name, results, masks, length, precision=0, encoder=0, others=mask | types, parts=1, token=7):
        content = bytes([precision, 0, encoder, parts - 1, results | others, len(masks), length])
        for place, kind in enumerate(masks):
            content += bytes([kind]) + bytes((place * 31 + i * token) % 200 for i in range(length))
        write("encoder_run", name, content)

    run("plain", vectors | hidden, [all_count, front + 8 * 3, some, last], 9)
    run("no_texts", vectors | hidden, [], 16)
    run("no_tokens", vectors | hidden, [all_count] * 3, 0)
    run("no_tokens_no_first", vectors, [all_count], 0, encoder=1)
    run("no_token_counts", vectors, [none] * 4, 9, precision=2)
    run("no_token_counts_threads", vectors, [none] * 4, 9, precision=1, others=mask | threads, parts=8)
    run("last_chunk_without_tokens", vectors, [all_count] * 12 + [none] * 4, 24, precision=2)
    run("last_text_alone", vectors, [none] * 15 + [last], 24, precision=3, parts=3)
    run("shares_are_no_numbers", vectors | hidden, [none, some], 12, encoder=2)
    run("shares_are_nothing", vectors | hidden, [none, some], 12, encoder=3)
    run("mask_from_front", vectors, [some, 7 * 8 + some, none], 20, precision=2, encoder=4)
    run("counted_positions", vectors | hidden, [all_count, some], 24, encoder=5, token=1)
    run("mask_of_ids", vectors, [all_count] * 5, 11, encoder=6, others=types, token=1)
    run("relative", vectors | hidden, [all_count, some, none], 24, precision=1, encoder=7)
    run("beyond_positions", vectors, [all_count], 25)
    run("not_a_mask", vectors, [7], 5)
    run("many_parts", vectors | hidden, [all_count], 1, others=mask | types | threads, parts=8)


def gguf_value(value):
    """The number of its type and its bytes."""
    if isinstance(value, bool):
        return 7, struct.pack("<B", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, struct.pack("<Q", len(value.encode())) + value.encode()
    kind = gguf_value(value[0])[0]
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(gguf_value(one)[1] for one in value)


def gguf_file(metadata, tensors):
    """`tensors`: name to sizes, the contiguous one first, type and bytes."""
    text = lambda value: gguf_value(value)[1]  # noqa: E731
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, content = gguf_value(value)
        head += text(key) + struct.pack("<I", kind) + content
    data = b""
    for name, (sizes, kind, content) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def write_gguf():
    sizes = {"block_count": 1, "attention.head_count": 1, "embedding_length": 32, "feed_forward_length": 32, "context_length": 64,
             "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": 32}
    types = {"f32": (0, 32, 128), "f16": (1, 32, 64), "bf16": (30, 32, 64), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22),
             "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144),
             "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "iq4_nl": (20, 32, 18), "iq4_xs": (23, 256, 136)}
    tensors = {name: ([width, 2], kind, b"0123456789" * 100) for name, (kind, width, _) in types.items()}
    tensors = {name: (of, kind, content[:2 * types[name][2]]) for name, (of, kind, content) in tensors.items()}
    words = {"token_embd.weight": ([32, 3], 0, bytes(384))}
    scores = {"model": "llama", "tokens": ["<unk>", "a", "aa"], "scores": [0.0, -1.0, -2.0], "token_type": [2, 1, 1]}
    merges = {"model": "gpt2", "pre": "qwen2", "tokens": ["a", "b", "ab"], "merges": ["a b"], "token_type": [1, 1, 1], "eos_token_id": 2}
    for name, tokenizer in (("llama", scores), ("qwen2", merges)):
        metadata = {"general.architecture": name, **{f"{name}.{key}": value for key, value in sizes.items()},
                    **{f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}, "tokenizer.chat_template": "{{ a }}"}
        write("gguf", name, gguf_file(metadata, words))
    write("gguf", "types", gguf_file({"general.architecture": "llama", "x": [True, False], "y": [1.5]}, tensors))
    write("gguf", "part", gguf_file({"split.no": 0, "split.count": 2, "general.alignment": 64}, {}))


def write_hub():
    lfs = {"sha256": "b" * 64, "size": 5000, "pointerSize": 134}
    info = {
        "id": "org/name", "sha": "a" * 40, "gated": "auto", "private": False, "tags": ["license:mit"], "downloads": 7,
        "siblings": [{"rfilename": "config.json", "size": 12, "blobId": "c" * 40},
                     {"rfilename": "onnx/model.onnx", "size": 5000, "lfs": lfs},
                     {"rfilename": "1_Pooling/config.json", "size": 3, "blobId": "d" * 40}]}
    write("hub_json", "info", "info\n" + json.dumps(info))
    write("hub_json", "search", "search\n" + json.dumps([info]))
    write("http_headers", "answer", "HTTP/1.1 206 Partial\nContent-Range: bytes 5-9/20\nETag: W/\"abc\"\n"
                                    "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\nLink: <https://hub/b>; rel=\"next\"\n")
    write("http_headers", "address", "../x?y=https://z#part")
    write("http_headers", "reference", "hf.co/Org/Name@refs/pr/1")
    write("http_headers", "record", "gpux download 1\n100\nabc\n0 10\n50 100\nend\n")


if __name__ == "__main__":
    write_hub()
    write_encoder_runs()
    write_libraries()
    write_texts_and_vectors()
    write_vectors_files()
    write_events()
    write_calls()
    write_json()
    write_arrays()
    write_constraints()
    write_conversations()
    write_registries()
    write_weights()
    write_gguf()
    write_values()
    write_models()
    write_projects()
    write_pictures()
    write_store()
    write_words()
    write_requests()
    write_messages()
