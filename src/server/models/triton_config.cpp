#include "server/models/triton_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <triton_config.pb.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "provider/table.h"

namespace gpux::server {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& problem) {
  throw Error(ErrorCode::invalid_config, fmt::format("{}: {}", place, problem));
}

// The first error: later ones follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (message_.empty()) message_ = fmt::format("{}:{}: {}", line + 1, column + 1, message);
  }

  [[nodiscard]] const std::string& message() const noexcept { return message_; }

 private:
  std::string message_;
};

triton::ModelConfig read(std::string_view text, TritonForm form, const std::string& place) {
  triton::ModelConfig config;
  if (form == TritonForm::json) {
    const auto status = google::protobuf::util::JsonStringToMessage(std::string(text), &config);
    if (!status.ok()) refuse(place, std::string(utf8_prefix(status.message().ToString(), 300)));
    return config;
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(text), &config)) {
    throw Error(ErrorCode::invalid_config, fmt::format("{}:{}", place, utf8_prefix(error.message(), 300)));
  }
  return config;
}

// One of several models of a folder, and nowhere else.
void require_file_name(const std::string& name, const std::string& place) {
  if (name.find('/') == std::string::npos && !name.starts_with('.') && name.ends_with(".onnx")) return;
  refuse(place, fmt::format("default_model_filename is {}; the name of an .onnx file is accepted", in_quotes(name)));
}

VersionPolicy versions_of(const triton::ModelVersionPolicy& policy, const std::string& place) {
  VersionPolicy versions;
  if (policy.has_all()) {
    versions.kind = VersionPolicy::Kind::all;
  } else if (policy.has_specific()) {
    versions.kind = VersionPolicy::Kind::specific;
    for (const std::int64_t version : policy.specific().versions())
      versions.versions.push_back(std::to_string(version));
    if (versions.versions.empty()) refuse(place, "version_policy.specific names no version");
  } else if (policy.has_latest()) {
    versions.count = std::max(policy.latest().num_versions(), 1U);
  }
  return versions;
}

void read_instances(const triton::ModelConfig& config, const std::string& place, TritonConfig& read) {
  if (config.instance_group_size() == 0) return;
  if (config.instance_group_size() > 1) {
    refuse(place, "instance_group has several groups, and a model of gpux has one kind of workers");
  }
  const triton::ModelInstanceGroup& group = config.instance_group(0);
  constexpr int max_workers = 1024;
  if (group.count() < 0 || group.count() > max_workers) {
    refuse(place, fmt::format("instance_group.count is {}; 1 to {} are accepted", group.count(), max_workers));
  }
  if (group.count() > 0) read.serving.workers = std::to_string(group.count());
  if (group.kind() == triton::ModelInstanceGroup::KIND_CPU) read.provider = "cpu";
  if (group.kind() == triton::ModelInstanceGroup::KIND_GPU) read.provider = "gpu";
}

// Triton's names of accelerators are names of providers, and gpux has more of them.
void read_accelerators(const triton::ModelConfig& config, const std::string& place, TritonConfig& read) {
  const auto& accelerators = config.optimization().execution_accelerators();
  const bool is_on_cpu = read.provider == "cpu";
  const auto& wanted = is_on_cpu ? accelerators.cpu_execution_accelerator() : accelerators.gpu_execution_accelerator();
  const auto& others = is_on_cpu ? accelerators.gpu_execution_accelerator() : accelerators.cpu_execution_accelerator();
  if (!others.empty()) {
    read.without_effect.push_back(
        fmt::format("execution_accelerators.{}_execution_accelerator", is_on_cpu ? "gpu" : "cpu"));
  }
  std::vector<std::string_view> providers;
  const auto add = [&providers](std::string_view id) {
    if (std::ranges::find(providers, id) == providers.end()) providers.push_back(id);
  };
  for (const auto& accelerator : wanted) {
    const provider::ProviderRow* const row = provider::find_row(accelerator.name());
    if (row == nullptr) {
      std::vector<std::string> ids;
      for (const provider::ProviderRow& known : provider::table()) ids.emplace_back(known.id);
      refuse(place, fmt::format("execution_accelerators: {} is not supported; accepted: {}",
                                in_quotes(accelerator.name()), join(ids)));
    }
    add(row->id);
    for (const std::string_view next : row->chain) add(next);
  }
  if (providers.empty()) return;
  add("cpu");
  read.provider = fmt::format("{}", fmt::join(providers, ","));
}

void read_batching(const triton::ModelConfig& config, const std::string& place, TritonConfig& read) {
  if (config.has_max_batch_size()) {
    if (config.max_batch_size() < 0) refuse(place, fmt::format("max_batch_size is {}", config.max_batch_size()));
    read.has_batch_dimension = config.max_batch_size() > 0;
    read.serving.batch_size = std::max(config.max_batch_size(), 1);
  }
  if (!config.has_dynamic_batching()) return;
  const triton::ModelDynamicBatching& batching = config.dynamic_batching();
  if (batching.preserve_ordering()) {
    refuse(place, "dynamic_batching.preserve_ordering: answers are given when they are there");
  }
  if (batching.default_queue_policy().timeout_action() == triton::ModelQueuePolicy::DELAY) {
    refuse(place, "dynamic_batching.default_queue_policy.timeout_action: late requests are refused, not delayed");
  }
  constexpr std::uint64_t max_delay_us = 60'000'000;
  const std::uint64_t delay_us = batching.max_queue_delay_microseconds();
  if (delay_us > max_delay_us) {
    refuse(place, fmt::format("max_queue_delay_microseconds is {}; at most {} are accepted", delay_us, max_delay_us));
  }
  read.serving.max_queue_delay = std::chrono::milliseconds((delay_us + 500) / 1000);
  if (const std::uint32_t most = batching.default_queue_policy().max_queue_size(); most != 0) {
    read.serving.max_queue = most;
  }
  if (batching.preferred_batch_size_size() != 0) {
    read.without_effect.emplace_back("dynamic_batching.preferred_batch_size");
  }
}

template <typename Declared>
std::vector<TritonTensor> tensors_of(const Declared& all) {
  std::vector<TritonTensor> tensors;
  for (const auto& one : all) {
    tensors.push_back({one.name(), triton::DataType_Name(one.data_type()), {one.dims().begin(), one.dims().end()}});
  }
  return tensors;
}

void read_tensors(const triton::ModelConfig& config, const std::string& place, TritonConfig& read) {
  read.inputs = tensors_of(config.input());
  read.outputs = tensors_of(config.output());
  for (const triton::ModelInput& input : config.input()) {
    if (input.allow_ragged_batch()) {
      refuse(place, fmt::format("input {}: allow_ragged_batch is not supported; serving.padding of gpux.yml fills up "
                                "shorter inputs",
                                in_quotes(input.name())));
    }
  }
  if (std::ranges::any_of(config.output(), [](const auto& output) { return !output.label_filename().empty(); })) {
    read.without_effect.emplace_back("label_filename");
  }
}

// What another system of Triton's is for.
void refuse_other_models(const triton::ModelConfig& config, const std::string& place) {
  if (!config.platform().empty() && config.platform() != "onnxruntime_onnx") {
    refuse(place, fmt::format("platform is {}; onnxruntime_onnx is accepted", in_quotes(config.platform())));
  }
  if (!config.backend().empty() && config.backend() != "onnxruntime") {
    refuse(place, fmt::format("backend is {}; onnxruntime is accepted", in_quotes(config.backend())));
  }
  if (config.model_transaction_policy().decoupled()) {
    refuse(place, "model_transaction_policy.decoupled: a request has one answer");
  }
  if (config.response_cache().enable()) {
    refuse(place, "response_cache.enable: gpux serve --response-cache SIZE keeps answers, of all models");
  }
}

// Sizes of the model, -1 for those that are free, without the batch dimension.
std::optional<std::vector<std::int64_t>> sizes_of(const ValueType& type, bool has_batch_dimension) {
  if (!type.dimensions || (has_batch_dimension && type.dimensions->empty())) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const Dimension& dimension : *type.dimensions) sizes.push_back(dimension.size.value_or(-1));
  if (has_batch_dimension) sizes.erase(sizes.begin());
  return sizes;
}

bool may_be(const std::vector<std::int64_t>& declared, const std::vector<std::int64_t>& own) {
  return std::ranges::equal(declared, own,
                            [](std::int64_t one, std::int64_t other) { return one < 0 || other < 0 || one == other; });
}

void require_tensors(const std::vector<TritonTensor>& declared, const std::vector<SignatureEntry>& own,
                     std::string_view what, bool has_batch_dimension, const std::string& place) {
  for (const TritonTensor& tensor : declared) {
    const auto found = std::ranges::find(own, tensor.name, &SignatureEntry::name);
    if (found == own.end()) {
      std::vector<std::string> names;
      for (const SignatureEntry& entry : own) names.push_back(entry.name);
      refuse(place, fmt::format("the model has no {} {}; it has: {}", what, in_quotes(tensor.name), join(names)));
    }
    const std::string type = triton_type(found->type);
    if (tensor.type != type) {
      refuse(place, fmt::format("{} {} is {}, and {} in the model", what, in_quotes(tensor.name), tensor.type, type));
    }
    const auto sizes = sizes_of(found->type, has_batch_dimension);
    // A vector of one size may be written for none.
    if (!sizes || may_be(tensor.sizes, *sizes) || (sizes->empty() && tensor.sizes == std::vector<std::int64_t>{1})) {
      continue;
    }
    refuse(place, fmt::format("{} {} has the sizes [{}], and [{}] in the model{}", what, in_quotes(tensor.name),
                              fmt::join(tensor.sizes, ", "), fmt::join(*sizes, ", "),
                              has_batch_dimension ? ", without its batch dimension" : ""));
  }
}

}  // namespace

std::string triton_type(const ValueType& type) {
  if (type.kind != ValueKind::tensor) return "TYPE_INVALID";
  constexpr std::array<std::pair<ElementType, std::string_view>, 14> names{{{ElementType::boolean, "TYPE_BOOL"},
                                                                            {ElementType::uint8, "TYPE_UINT8"},
                                                                            {ElementType::uint16, "TYPE_UINT16"},
                                                                            {ElementType::uint32, "TYPE_UINT32"},
                                                                            {ElementType::uint64, "TYPE_UINT64"},
                                                                            {ElementType::int8, "TYPE_INT8"},
                                                                            {ElementType::int16, "TYPE_INT16"},
                                                                            {ElementType::int32, "TYPE_INT32"},
                                                                            {ElementType::int64, "TYPE_INT64"},
                                                                            {ElementType::float16, "TYPE_FP16"},
                                                                            {ElementType::float32, "TYPE_FP32"},
                                                                            {ElementType::float64, "TYPE_FP64"},
                                                                            {ElementType::string, "TYPE_STRING"},
                                                                            {ElementType::bfloat16, "TYPE_BF16"}}};
  const auto* const found = std::ranges::find(names, type.element, &std::pair<ElementType, std::string_view>::first);
  return found == names.end() ? "TYPE_INVALID" : std::string(found->second);
}

TritonConfig parse_triton_config(std::string_view text, TritonForm form, const std::string& place) {
  const triton::ModelConfig config = read(text, form, place);
  refuse_other_models(config, place);
  TritonConfig parsed;
  parsed.name = config.name();
  if (!config.default_model_filename().empty()) {
    require_file_name(config.default_model_filename(), place);
    parsed.model_file = config.default_model_filename();
  }
  if (config.has_version_policy()) parsed.versions = versions_of(config.version_policy(), place);
  read_instances(config, place, parsed);
  read_accelerators(config, place, parsed);
  read_batching(config, place, parsed);
  read_tensors(config, place, parsed);
  if (config.model_warmup_size() != 0) parsed.without_effect.emplace_back("model_warmup");
  if (!config.metric_tags().empty()) parsed.without_effect.emplace_back("metric_tags");
  return parsed;
}

ListedModel with_config(ListedModel listed, const TritonConfig& config) {
  if (!config.provider.empty()) listed.provider = config.provider;
  const ServingSettings& said = config.serving;
  ServingSettings& serving = listed.serving;
  if (said.batch_size) serving.batch_size = said.batch_size;
  if (said.max_queue_delay) serving.max_queue_delay = said.max_queue_delay;
  if (said.max_queue) serving.max_queue = said.max_queue;
  if (said.workers) serving.workers = said.workers;
  return listed;
}

void require_match(const TritonConfig& config, const Signature& signature, const std::string& place) {
  require_tensors(config.inputs, signature.inputs, "input", config.has_batch_dimension, place);
  require_tensors(config.outputs, signature.outputs, "output", config.has_batch_dimension, place);
}

}  // namespace gpux::server
