#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/options.h"
#include "image/recipe.h"
#include "project/yaml_document.h"

namespace gpux {

enum class Activation : std::uint8_t { none, softmax, sigmoid };

/// An input or output as gpux.yml declares it.
struct DeclaredValue {
  std::string name;
  ValueType type;                ///< `dimensions` is empty where no shape is declared
  std::optional<bool> required;  ///< inputs
  std::string description;
  std::vector<std::string> labels;           ///< outputs: names of the last dimension's positions
  Activation activation = Activation::none;  ///< outputs with labels
  std::optional<std::int64_t> top_k;         ///< outputs with labels: how many; all where empty
  bool is_json = false;                      ///< outputs that gpux adds: each text is a JSON value
  yaml::Position position;
};

/// One provider of `runtime.providers`. Names and options are not judged here: the provider table does that.
struct DeclaredProvider {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
  std::filesystem::path library;  ///< absolute; empty where none is given
  yaml::Position position;
};

struct DeclaredLibrary {
  std::string name;
  std::filesystem::path path;  ///< absolute
  yaml::Position position;
};

struct RuntimeSettings {
  std::optional<std::string> backend;               ///< runtime.gpu.backend
  std::optional<std::uint64_t> memory_limit_bytes;  ///< runtime.gpu.memory
  std::optional<std::uint32_t> device;              ///< runtime.gpu.device
  std::vector<DeclaredProvider> providers;
  std::vector<DeclaredLibrary> provider_libraries;
  std::vector<DeclaredLibrary> custom_operators;  ///< without names
  std::optional<Strictness> strict;
  std::optional<std::chrono::milliseconds> timeout;  ///< maximum time of one run
  std::optional<std::uint32_t> intra_threads, inter_threads;
  std::string precision;  ///< empty: none
  std::optional<Optimization> optimization;
  std::optional<std::filesystem::path> profile;  ///< absolute: where the runtime's profile goes
  std::optional<std::int64_t> batch_size;        ///< the most objects of a list that one run takes
  std::optional<Isolation> isolation;
};

/// `task`, and the parts of `preprocessing` and `postprocessing` that are about texts; empty: not said.
struct DeclaredText {
  std::optional<std::string> task;                 ///< as the schema names them
  std::optional<std::filesystem::path> tokenizer;  ///< absolute; a tokenizer.json or its folder
  std::optional<std::size_t> max_tokens;           ///< preprocessing.max_length, with the special ones
  std::optional<bool> fills_up;                    ///< padding: max_length
  std::optional<bool> truncate_left;
  std::optional<std::string> pair_truncation;  ///< longest_first, only_first, only_second
  std::optional<std::string> aggregation;      ///< none, simple, first, average, max
  std::optional<std::size_t> max_answer_tokens;
};

/// How an image is scored by labels: activation(logit_scale * cosine + logit_bias) over the labels.
struct ZeroShotSettings {
  double logit_scale = 1, logit_bias = 0;
  Activation activation = Activation::softmax;
  std::string label_template = "{}";  ///< a label is put in place of "{}"
};

/// How a model is served, as gpux.yml or a list of models says; empty: not said.
struct ServingSettings {
  std::optional<std::string> host;
  std::optional<std::uint16_t> port;
  std::optional<std::int64_t> batch_size;      ///< the most rows that share a run
  std::optional<std::int64_t> max_batch_cost;  ///< the most elements of a shared run's largest input
  std::optional<BatchAxis> batch_axis;         ///< decides whether requests share runs
  std::optional<std::string> batching;         ///< batching of texts: exact or throughput
  /// Inputs that are filled up, with the number as it is written; not compared with the model.
  std::optional<std::vector<std::pair<std::string, std::string>>> padding;
  std::optional<std::chrono::milliseconds> max_queue_delay, timeout;
  std::optional<std::uint32_t> max_queue;
  std::optional<std::string> workers;  ///< "4", "auto", "devices"
  std::optional<std::uint32_t> max_workers;
  std::optional<std::uint32_t> max_sequences, context_length;  ///< limits of a model that generates text
  std::optional<std::uint64_t> cache_bytes;
  std::vector<std::vector<std::pair<std::string, std::int64_t>>> warm_up;  ///< sizes by name of dimension
};

/// Takes them off a map that agrees with the schema.
ServingSettings read_serving(const yaml::TreeNode& node);

/// Who wrote a gpux.yml.
enum class Author : std::uint8_t {
  user,
  stranger,  ///< a package that was pulled or loaded, or a repository that is being pulled
};

/// `source`: where it was pulled from; empty: it was not.
inline Author author_of(std::string_view source) noexcept {
  return source.empty() ? Author::user : Author::stranger;
}

/// A step of an ensemble: a model of its own.
struct DeclaredStep {
  std::string name;
  std::string model;  ///< a path, absolute if it is in the file's folder, or a name in the store
  std::vector<std::pair<std::string, std::string>> inputs;  ///< with what they get, as it is written
  yaml::Position position;
};

/// Models that run one after the other.
struct DeclaredEnsemble {
  std::vector<DeclaredStep> steps;
  std::vector<std::pair<std::string, std::string>>
      outputs;  ///< names with "STEP.OUTPUT"; empty: those of the last step
};

/// A gpux.yml, checked. Texts of the user have their variables expanded.
struct ProjectFile {
  std::filesystem::path file;  ///< as it was given
  std::string name;
  std::string version = "1.0.0";
  std::string description;
  std::filesystem::path source;       ///< absolute; not looked at; empty: an ensemble
  std::filesystem::path image_tower;  ///< absolute; not looked at; empty: none
  std::string model_version;
  std::vector<std::string> files;                             ///< model.files: names inside folder()
  std::optional<std::vector<DeclaredValue>> inputs, outputs;  ///< empty: not declared
  RuntimeSettings runtime;
  ServingSettings serving;
  std::filesystem::path before, after;        ///< absolute: preprocessing.custom, postprocessing.custom; empty: none
  std::optional<image::Recipe> image_recipe;  ///< empty: `preprocessing` has no key that is about images
  DeclaredText text;
  std::optional<ZeroShotSettings> zero_shot;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::optional<DeclaredEnsemble> ensemble;  ///< in place of a source; only of the user's own files

  /// What the file of a stranger says but does not decide: "serving.host", "${HOME}".
  std::vector<std::string> ignored;

  std::map<std::string, yaml::Position, std::less<>>
      positions;  ///< position of each key in the file: "runtime.gpu.memory"

  /// The file's folder, absolute.
  [[nodiscard]] std::filesystem::path folder() const;

  /// The provider request the file makes, with the key that makes it: "cuda" by runtime.gpu.backend,
  /// "tensorrt,cuda,cpu" by runtime.providers, which is exactly its list ("cuda," where it names one).
  struct Request {
    std::string providers;
    std::string key;
  };

  [[nodiscard]] std::optional<Request> provider_request() const;

  /// "FILE:LINE:COLUMN" of a key, or of the file alone where the key is not given.
  [[nodiscard]] std::string where(std::string_view key) const;
  [[nodiscard]] std::string where(yaml::Position position) const;
};

/// Reads gpux.yml. One of a stranger gets no environment variable, and keys that it may not decide (InPackage) count as
/// not given. Errors not_found, storage, and invalid_config that lists all that is wrong in one line,
/// "FILE:LINE:COLUMN: what; FILE:LINE:COLUMN: what".
ProjectFile read_project_file(const std::filesystem::path& file, Author author = Author::user);

/// Reads a text that is already in memory; paths in it are relative to the folder of `file`.
ProjectFile parse_project_file(std::string_view text, const std::filesystem::path& file, Author author = Author::user);

/// A line about what was ignored in the file of `model`; empty: nothing was.
Message ignored_line(const ProjectFile& project, std::string_view model);

/// Error invalid_config where the file names code or places of this machine that a package may not bring along:
/// plugin libraries, and profiles outside gpux's home.
void require_portable(const ProjectFile& project);

}  // namespace gpux
