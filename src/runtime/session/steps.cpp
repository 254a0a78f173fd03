#include "runtime/session/steps.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/machine.h"
#include "base/processors.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/model_files.h"
#include "runtime/loading/session_of_file.h"

namespace gpux::runtime {
namespace {

constexpr std::string_view before_key = "preprocessing.custom", after_key = "postprocessing.custom";

const SignatureEntry* entry_of(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::string names_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : entries) names.push_back(entry.name);
  return join(names);
}

// What `giver` gives of the inputs of `taker` has to fit; one at least has to be given.
void require_link(std::string_view key, const std::vector<SignatureEntry>& given, std::string_view giver,
                  const std::vector<SignatureEntry>& taken, std::string_view taker) {
  bool is_linked = false;
  for (const SignatureEntry& input : taken) {
    const SignatureEntry* output = entry_of(given, input.name);
    if (output == nullptr) continue;
    is_linked = true;
    if (may_go_on(output->type, input.type)) continue;
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: '{}' is {} as {} gives it, and {} takes {}", key, input.name, to_string(output->type),
                            giver, taker, to_string(input.type)));
  }
  if (is_linked) return;
  throw Error(ErrorCode::invalid_config,
              fmt::format("{}: {} gives {}, and {} takes {}: one name at least has to be the same", key, giver,
                          names_of(given), taker, names_of(taken)));
}

void add_callers(const std::vector<SignatureEntry>& inputs, const std::vector<const Signature*>& givers,
                 std::string_view key, std::vector<SignatureEntry>& callers) {
  for (const SignatureEntry& input : inputs) {
    const bool is_given = std::ranges::any_of(
        givers, [&](const Signature* giver) { return entry_of(giver->outputs, input.name) != nullptr; });
    if (is_given) continue;
    if (const SignatureEntry* known = entry_of(callers, input.name)) {
      if (may_go_on(known->type, input.type)) continue;
      throw Error(ErrorCode::invalid_config, fmt::format("{}: input '{}' is asked for as {} and as {}", key, input.name,
                                                         to_string(known->type), to_string(input.type)));
    }
    callers.push_back(input);
  }
}

ort::Session open(const std::filesystem::path& file, const LoadOptions& options) {
  ort::SessionSettings settings;
  settings.intra_threads = options.intra_threads.value_or(usable_cores(Machine::this_one()));
  settings.optimization = static_cast<ort::OptimizationLevel>(options.optimization);
  settings.custom_operator_libraries = options.custom_operator_libraries;
  if (!options.map_weights) settings.changing_files = onnx::files_of(file, ModelInspector::inspect(file));
  try {
    return session_of_file(file, settings);
  } catch (const Error& error) {
    throw error.within({file_at(file)});
  }
}

// A later one of a name takes the earlier one's place.
void put(NamedValues& values, NamedValues&& more) {
  for (auto& [name, value] : more) {
    const auto known = std::ranges::find(values, name, &NamedValues::value_type::first);
    if (known == values.end()) {
      values.emplace_back(std::move(name), std::move(value));
    } else {
      known->second = std::move(value);
    }
  }
}

NamedValues inputs_of(const ort::Session& session, const NamedValues& values) {
  NamedValues inputs;
  for (const auto& [name, value] : values) {
    if (std::ranges::find(session.input_names(), name) != session.input_names().end()) inputs.emplace_back(name, value);
  }
  return inputs;
}

std::vector<std::size_t> all_of(const std::vector<std::string>& names) {
  std::vector<std::size_t> indices(names.size());
  std::iota(indices.begin(), indices.end(), 0U);
  return indices;
}

}  // namespace

bool may_go_on(const ValueType& given, const ValueType& taken) {
  if (given.kind != taken.kind || given.element != taken.element || given.inner != taken.inner) return false;
  if (!given.dimensions || !taken.dimensions) return true;
  return std::ranges::equal(*given.dimensions, *taken.dimensions, [](const Dimension& left, const Dimension& right) {
    return !left.size || !right.size || *left.size == *right.size;
  });
}

Signature with_steps(const Signature& model, const Signature* before, const Signature* after) {
  Signature whole;
  if (before != nullptr) {
    require_link(before_key, before->outputs, "it", model.inputs, "the model");
    whole.inputs = before->inputs;
  }
  std::vector<const Signature*> givers;
  if (before != nullptr) givers.push_back(before);
  add_callers(model.inputs, givers, before_key, whole.inputs);
  whole.outputs = model.outputs;
  if (after != nullptr) {
    require_link(after_key, model.outputs, "the model", after->inputs, "it");
    givers.push_back(&model);
    add_callers(after->inputs, givers, after_key, whole.inputs);
    whole.outputs = after->outputs;
  }
  return whole;
}

Signature with_steps(const Signature& model, const LoadOptions& options) {
  std::optional<ModelInfo> before, after;
  if (!options.before.empty()) before = ModelInspector::inspect(options.before);
  if (!options.after.empty()) after = ModelInspector::inspect(options.after);
  return with_steps(model, before ? &before->signature : nullptr, after ? &after->signature : nullptr);
}

Steps::Steps(const LoadOptions& options) {
  if (!options.before.empty()) before_ = open(options.before, options);
  if (!options.after.empty()) after_ = open(options.after, options);
}

NamedValues Steps::run(const ort::Session& model, const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                       ort::RunHandle* handle) const {
  if (!*this) return model.run(inputs, outputs, handle);
  NamedValues values = inputs;
  if (before_) put(values, before_->run(inputs_of(*before_, values), all_of(before_->output_names()), handle));
  if (!after_) return model.run(inputs_of(model, values), outputs, handle);
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < model.output_names().size(); ++i) {
    const auto& taken = after_->input_names();
    if (std::ranges::find(taken, model.output_names()[i]) != taken.end()) wanted.push_back(i);
  }
  put(values, model.run(inputs_of(model, values), wanted, handle));
  return after_->run(inputs_of(*after_, values), outputs, handle);
}

const std::vector<std::string>& Steps::output_names(const ort::Session& model) const noexcept {
  return after_ ? after_->output_names() : model.output_names();
}

}  // namespace gpux::runtime
