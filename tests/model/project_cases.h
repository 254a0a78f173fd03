#pragma once

#include <string>
#include <vector>

namespace gpux::test {

/// A piece of gpux.yml that goes below the two required keys (lines 1 and 2), so its first line is line 3.
struct ProjectCase {
  std::string text;
  std::string message;         ///< a part of the error's message; empty: the text is accepted
  bool whole_file = false;     ///< the text is the whole file
  bool beyond_schema = false;  ///< refused for a reason that a JSON schema cannot say
};

inline std::string file_text(const ProjectCase& one) {
  return one.whole_file ? one.text : "name: digits\nmodel: {source: model.onnx}\n" + one.text;
}

inline std::vector<ProjectCase> project_cases() {
  const bool whole = true;
  const bool beyond = true;
  return {
      // The two required keys.
      {""},
      {"{}", "1:1: 'name' is missing; f.yml:1:1: 'model' is missing", whole},
      {"", "1:1: the file is empty; a map with name, version, ", whole},
      {"- a", "1:1: the file is a list; a map with name", whole},
      {"name: a\nmodel: {}", "2:8: 'model.source' is missing", whole},
      {"name: a\nmodel: x.onnx", "2:8: 'model' is 'x.onnx'; a map with source, format, version, files is accepted",
       whole},
      {"name: ''\nmodel: {source: m.onnx}", "1:1: 'name' is empty", whole, beyond},
      {"name:\nmodel: {source: m.onnx}", "1:1: 'name' is missing", whole},
      {"name: [a]\nmodel: {source: m.onnx}", "1:7: 'name' is a list; a text is accepted", whole},
      {"name: 17\nmodel: {source: m.onnx}", "", whole},
      {"name: a\nmodel: {source: https://host/m.onnx}", "2:17: 'model.source' is 'https://host/m.onnx'; fetching",
       whole, beyond},
      {"name: a\nmodel: {source: ''}", "2:17: 'model.source' is ''", whole, beyond},
      {"name: a\nmodel: {source: m.onnx, format: onnx, version: 3}", "", whole},
      {"name: a\nmodel: {source: m.onnx, format: pytorch}", "2:33: 'model.format' is 'pytorch'; onnx is accepted",
       whole},
      {"name: a\nmodel: {source: m.onnx, files: [decoder.onnx, ./sub/tokenizer.json]}", "", whole},
      {"name: a\nmodel: {source: m.onnx, files: [../x]}", "2:33: '../x' in 'model.files' is not inside", whole, beyond},
      {"name: a\nmodel: {source: m.onnx, files: x}", "2:32: 'model.files' is 'x'; a list of texts", whole},
      // Texts.
      {"version: 1.0"},
      {"version: 1.0.0\ndescription: words"},
      {"version: {a: b}", "3:10: 'version' is a map; a text is accepted"},
      {"description:"},
      // Unknown, later and doubled keys.
      {"nmae: x", "3:1: unknown key 'nmae'; did you mean 'name'?"},
      {"runtime:\n  gpu:\n    memry: 2GB", "5:5: unknown key 'runtime.gpu.memry'; did you mean 'memory'?"},
      {"runtime: {zzzzzzzzzz: 1}", "3:11: unknown key 'runtime.zzzzzzzzzz'; known here: gpu, providers, "},
      {"serving: {port: 80, host: 0.0.0.0, batch_size: 8, timeout: 5, max_workers: 4, workers: auto}"},
      {"serving: {max_queue: 10, max_queue_delay: 2ms, workers: 2, warm_up: [{batch: 8, \"x.1\": 3}, {}]}"},
      {"serving: {port: 70000}", "3:17: 'serving.port' is '70000'; a whole number from 0 to 65535 is accepted"},
      {"serving: {workers: many}", "3:20: 'serving.workers' is 'many'; a whole number from 1 to 1024, auto or devices"},
      {"serving: {warm_up: [{batch: 0}]}", "'serving.warm_up[0].batch' is '0'; a size from 1 is accepted"},
      {"serving: {warm_up: {batch: 1}}", "'serving.warm_up' is a map; a list of maps of names to sizes is accepted"},
      {"serving: {prot: 80}", "3:11: unknown key 'serving.prot'; did you mean 'port'?"},
      {"preprocessing: {}", "3:1: the key 'preprocessing' is refused: not supported yet"},
      {"inputs: {a: {type: string, max_length: 5}}",
       "3:28: the key 'inputs.a.max_length' is refused: it belongs to text"},
      {"version: 1\nversion: 2", "4:1: the key 'version' stands here a second time", false, beyond},
      {"runtime: {gpu: {device: 0, device: 1}}", "the key 'device' stands here a second time", false, beyond},
      {"tags: [a]", "unknown key 'tags'"},
      // All at once.
      {"nmae: x\nruntime: {timeout: never, gpu: {memory: bananaGB}}",
       "f.yml:3:1: unknown key 'nmae'; did you mean 'name'?; f.yml:4:20: 'runtime.timeout' is 'never'; seconds, or a "
       "text such as 500ms, 5s, 2m is accepted; f.yml:4:41: 'runtime.gpu.memory' is 'bananaGB'; bytes, or a text"},
      // Inputs and outputs.
      {"inputs: [{name: x, type: float32, shape: [1, 3, null, -1, width], required: true, description: d}]"},
      {"inputs: {x: {type: float, shape: []}}"},
      {"inputs: {x: float32, y: tensor(int64), z: 'seq(map(int64, tensor(float)))', o: optional(bool)}"},
      {"inputs: []\noutputs: {}"},
      {"inputs: 5",
       "3:9: 'inputs' is '5'; a list of objects with name and type, or a map of names to types is accepted"},
      {"inputs: [x]", "3:10: 'inputs[0]' is 'x'; a map with name, type, shape, required, description is accepted"},
      {"inputs: [{name: x}]", "3:10: 'inputs[0].type' is missing"},
      {"inputs: [{type: bool}]", "3:10: 'inputs[0].name' is missing"},
      {"inputs: {x: {}}", "3:13: 'inputs.x.type' is missing"},
      {"inputs: {x: }", "3:13: 'inputs.x' is empty; a map with"},
      {"inputs: {x: {name: y, type: bool}}", "'inputs.x.name': the name stands before the colon already"},
      {"inputs: {x: potato}", "3:13: 'inputs.x' is 'potato'; ONNX's types are accepted: float32,"},
      {"inputs: {x: {type: undefined}}", "'inputs.x.type' is 'undefined'; ONNX's types"},
      {"inputs: {x: {type: [bool]}}", "'inputs.x.type' is a list; ONNX's types"},
      {"inputs: {x: 'seq(potato)'}", "'inputs.x' is 'seq(potato)'; ONNX's types", false, beyond},
      {"inputs: {x: {type: bool, shape: 5}}", "'inputs.x.shape' is '5'; a list of sizes, names, null and -1"},
      {"inputs: {x: {type: bool, shape: [-2]}}", "'inputs.x.shape[0]' is '-2'; a size from 0, a name, null or -1"},
      {"inputs: {x: {type: bool, shape: [1.5]}}", "'inputs.x.shape[0]' is '1.5'; a size"},
      {"inputs: {x: {type: bool, shape: [[1]]}}", "'inputs.x.shape[0]' is a list; a size"},
      {"inputs: {x: {type: 'seq(bool)', shape: [1]}}", "'x' has a shape, but is declared sequence(bool", false, beyond},
      {"inputs: {x: {type: bool, required: yes}}", "'inputs.x.required' is 'yes'; true or false is accepted"},
      {"inputs: [{name: x, type: bool}, {name: x, type: bool}]", "3:33: 'x' stands in 'inputs' a second time", false,
       beyond},
      {"inputs: {x: {type: bool, labels: [a]}}", "unknown key 'inputs.x.labels'"},
      {"outputs: {y: {type: float32, required: true}}", "unknown key 'outputs.y.required'"},
      {"outputs: {y: {type: float32, labels: [zero, 1, yes], activation: softmax, top_k: 2}}"},
      {"outputs: {y: {type: float32, labels: zero}}", "'outputs.y.labels' is 'zero'; a list of texts is accepted"},
      {"outputs: {y: {type: float32, labels: [[a]]}}", "'outputs.y.labels[0]' is a list; a text is accepted"},
      {"outputs: {y: {type: float32, labels: [a, null]}}", "'outputs.y.labels[1]' is empty; a text"},
      {"outputs: {y: {type: float32, labels: [a], activation: relu}}", "is 'relu'; softmax, sigmoid are accepted"},
      {"outputs: {y: {type: float32, labels: [a], top_k: 0}}", "'outputs.y.top_k' is '0'; a whole number from 1 to"},
      {"outputs: {y: {type: float32, top_k: 1}}", "'y' has 'top_k' without labels", false, beyond},
      {"outputs: {y: {type: float32, activation: softmax}}", "'y' has 'activation' without labels", false, beyond},
      // runtime
      {"runtime:"},
      {"runtime: {gpu: {backend: cuda, memory: 2GB, device: 1}}"},
      {"runtime: {gpu: {memory: 1073741824}}"},
      {"runtime: {gpu: {memory: 1.5 GiB}}"},
      {"runtime: {gpu: {memory: 512k}}"},
      {"runtime: {gpu: {memory: 0}}", "'runtime.gpu.memory' is '0'; bytes, or a text"},
      {"runtime: {gpu: {memory: -1}}", "'runtime.gpu.memory' is '-1'; bytes, or a text"},
      {"runtime: {gpu: {device: -1}}", "'runtime.gpu.device' is '-1'; a whole number from 0 to 2147483647 is accepted"},
      {"runtime: {gpu: {device: 99999999999}}", "'runtime.gpu.device' is '99999999999'; a whole number", false, beyond},
      {"runtime: {gpu: cuda}", "'runtime.gpu' is 'cuda'; a map with backend, memory, device is accepted"},
      {"runtime: {providers: [tensorrt, cuda, cpu]}"},
      {"runtime: {providers: 'tensorrt, cuda'}"},
      {"runtime: {providers: [{cuda: {cudnn_conv_algo_search: EXHAUSTIVE, device_id: 1}}, {cpu: }]}"},
      {"runtime: {providers: [{name: cuda, options: {a: true}, library: ./lib.so}]}"},
      {"runtime: {providers: []}", "3:22: 'runtime.providers' is an empty list; name a provider", false, beyond},
      {"runtime: {providers: {cuda: 1}}", "'runtime.providers' is a map; a list of provider names is accepted"},
      {"runtime: {providers: [{a: , b: }]}", "'runtime.providers[0]' is a map; a name, one name with its options, or"},
      {"runtime: {providers: [[a]]}", "'runtime.providers[0]' is a list; a name, one name"},
      {"runtime: {providers: [{cuda: 5}]}", "'runtime.providers[0].cuda' is '5'; a map of names to texts is accepted"},
      {"runtime: {providers: [{name: a, optoins: {}}]}",
       "unknown key 'runtime.providers[0].optoins'; did you mean 'options'"},
      {"runtime: {providers: [{name: a, options: {b: [c]}}]}", "'runtime.providers[0].options.b' is a list; a text"},
      {"runtime: {gpu: {backend: cuda}, providers: [cpu]}", "both say where to run; keep one", false, beyond},
      {"runtime: {provider_libraries: {Mine: ./libmine.so}}"},
      {"runtime: {provider_libraries: [{Mine: ./libmine.so}, {Other: /o.so}]}"},
      {"runtime: {provider_libraries: ./libmine.so}", "is './libmine.so'; a map of names to paths is accepted"},
      {"runtime: {provider_libraries: {Mine: [a]}}", "'runtime.provider_libraries.Mine' is a list; a text"},
      {"runtime: {strict: true}"},
      {"runtime: {strict: nodes}"},
      {"runtime: {strict: maybe}", "'runtime.strict' is 'maybe'; true, false or nodes is accepted"},
      {"runtime: {timeout: 30}"},
      {"runtime: {timeout: 0.5}"},
      {"runtime: {timeout: 500ms}"},
      {"runtime: {timeout: 2 min}"},
      {"runtime: {timeout: 0}", "'runtime.timeout' is '0'; seconds"},
      {"runtime: {timeout: -3}", "'runtime.timeout' is '-3'; seconds"},
      {"runtime: {timeout: 0s}", "'runtime.timeout' is '0s'; seconds", false, beyond},
      {"runtime: {timeout: 5 parsecs}", "'runtime.timeout' is '5 parsecs'; seconds"},
      {"runtime: {threads: {intra: 4, inter: 1}}"},
      {"runtime: {threads: 4}", "'runtime.threads' is '4'; a map with intra, inter is accepted"},
      {"runtime: {threads: {intra: 0}}", "'runtime.threads.intra' is '0'; a whole number from 1 to"},
      {"runtime: {threads: {intra: two}}", "'runtime.threads.intra' is 'two'; a whole number"},
      {"runtime: {optimization_level: extended}"},
      {"runtime: {optimization_level: O3}", "is 'O3'; disabled, basic, extended, layout, all are accepted"},
      {"runtime: {profile: ./out}"},
      {"runtime: {profile: ''}", "'runtime.profile' is ''; a path is accepted", false, beyond},
      {"runtime: {enable_profiling: true}"},
      {"runtime: {enable_profiling: 1}", "'runtime.enable_profiling' is '1'; true or false is accepted"},
      {"runtime: {enable_profiling: false, profile: x}", "keep one", false, beyond},
      {"runtime: {batch_size: 8}"},
      {"runtime: {batch_size: '8'}"},
      {"runtime: {batch_size: 0}", "'runtime.batch_size' is '0'; a whole number from 1 to"},
      {"runtime: {batch_size: 1.5}", "'runtime.batch_size' is '1.5'; a whole number"},
      // metadata
      {"metadata: {author: me, year: 2024, empty: }"},
      {"metadata: [a]", "'metadata' is a list; a map of names to texts is accepted"},
      {"metadata: {a: {b: c}}", "'metadata.a' is a map; a text is accepted"},
      // Variables: FOUR is 4, EMPTY is empty, UNSET is not set.
      {"runtime: {threads: {intra: '${FOUR}'}}"},
      {"runtime: {threads: {intra: ${FOUR}}}", "3:", false, beyond},
      {"runtime:\n  batch_size: ${FOUR}"},
      {"runtime:\n  batch_size: ${UNSET:-16}"},
      {"runtime:\n  batch_size: ${UNSET}",
       "4:15: the environment variable 'UNSET' is not set; set it, or write ${UNSET:-", false, beyond},
      {"runtime:\n  batch_size: ${UNSET:-x}", "4:15: 'runtime.batch_size' is 'x'; a whole number", false, beyond},
      {"description: costs $$5 or $5"},
      {"description: '${FOUR'", "3:14: '${FOUR' lacks its }", false, beyond},
      {"description: '${4}'", "3:14: '${4}' is not a variable", false, beyond},
      {"inputs: {x: '${UNSET:-float32}'}"},
      // YAML itself.
      {"a: [", "f.yml:", false, beyond},
      {"version: 'x", "f.yml:", false, beyond},
      {"version: 1\n---\nversion: 2", "a second document begins here", false, beyond},
      {"version: !include x", "3:10: the tag '!include' means nothing here", false, beyond},
      {"? [a]\n: b", "a list or map stands where a key is expected", false, beyond},
      {"inputs: &i {x: bool}\noutputs: *i"},
      {"inputs: &i [*i]", "an alias stands inside the value it refers to", false, beyond},
      {"version: \"a\x04\"\nnmae: x", "3:12: control character 0x04", false, beyond},
      {"version: \"\xff\"", "not UTF-8 text", false, beyond},
  };
}

}  // namespace gpux::test
