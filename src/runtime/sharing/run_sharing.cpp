#include "runtime/sharing/run_sharing.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "runtime/scheduling/batch.h"

namespace gpux {

std::string_view to_string(RunSharing::Source source) noexcept {
  using enum RunSharing::Source;
  switch (source) {
    case signature:
      return "signature";
    case setting:
      return "setting";
    case graph:
      return "graph";
    case trial:
      return "trial";
    case single_run:
      return "single-run";
    case not_proven:
      break;
  }
  return "not-proven";
}

std::string to_line(const RunSharing& sharing) {
  return fmt::format("{} ({}): {}", sharing.shared ? "requests share runs" : "requests run one by one",
                     to_string(sharing.source), sharing.reason);
}

std::string to_json(const RunSharing& sharing) {
  nlohmann::ordered_json json;
  json["shared"] = sharing.shared;
  json["source"] = to_string(sharing.source);
  json["reason"] = sharing.reason;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gpux

namespace gpux::runtime {
namespace {

using Source = RunSharing::Source;
using Outcome = SharingTrial::Outcome;

template <typename Take>
void for_each_entry(const Signature& signature, const Take& take) {
  for (const SignatureEntry& entry : signature.inputs) take(entry, "input");
  for (const SignatureEntry& entry : signature.outputs) take(entry, "output");
}

std::string described(const SignatureEntry& entry, const char* side) {
  return fmt::format("{} '{}' is {}", side, utf8_prefix(entry.name, 80), to_string(entry.type));
}

constexpr std::array<std::string_view, 3> dynamic_quantization{
    "DynamicQuantizeLinear", "com.microsoft::DynamicQuantizeMatMul", "com.microsoft::DynamicQuantizeLSTM"};
constexpr std::array<std::string_view, 7> random_numbers{"RandomNormal",           "RandomNormalLike", "RandomUniform",
                                                         "RandomUniformLike",      "Multinomial",      "Bernoulli",
                                                         "com.microsoft::Sampling"};

const char* setting_name(BatchAxis axis) {
  return axis == BatchAxis::zero ? "0" : "none";
}

}  // namespace

std::string first_axis_obstacle(const Signature& signature) {
  if (signature.inputs.empty()) return "the model has no input";
  std::string obstacle;
  for_each_entry(signature, [&](const SignatureEntry& entry, const char* side) {
    if (!obstacle.empty()) return;
    if (entry.type.kind != ValueKind::tensor) {
      obstacle = described(entry, side) + ", which has no rows";
    } else if (!entry.type.dimensions) {
      obstacle = described(entry, side) + ", whose dimensions are not declared";
    } else if (entry.type.dimensions->empty()) {
      obstacle = described(entry, side) + ", which has no first dimension";
    } else if (entry.type.dimensions->front().size) {
      obstacle = described(entry, side) + ", whose first dimension is fixed";
    }
  });
  return obstacle;
}

std::string dimension_name_obstacle(const Signature& signature) {
  std::string batch, obstacle;
  std::set<std::string_view> first_names;
  for_each_entry(signature, [&](const SignatureEntry& entry, const char* side) {
    if (!entry.type.dimensions || entry.type.dimensions->empty() || !obstacle.empty()) return;
    const Dimension& first = entry.type.dimensions->front();
    if (!first.name.empty()) first_names.insert(first.name);
    if (!has_telling_name(first)) return;
    if (batch.empty()) batch = first.name;
    if (first.name == batch) return;
    obstacle = fmt::format("{}, and the first dimension of others is called '{}'", described(entry, side), batch);
  });
  for_each_entry(signature, [&](const SignatureEntry& entry, const char* side) {
    if (!entry.type.dimensions || !obstacle.empty()) return;
    const std::vector<Dimension>& dimensions = *entry.type.dimensions;
    for (std::size_t i = 1; i < dimensions.size(); ++i) {
      if (dimensions[i].size || !first_names.contains(dimensions[i].name)) continue;
      obstacle = fmt::format("{}: dimension {} would grow with the rows of a shared run", described(entry, side), i);
      return;
    }
  });
  return obstacle;
}

std::string operator_obstacle(const std::map<std::string, std::uint64_t>& operators) {
  const auto has = [&](std::string_view name) { return operators.contains(std::string(name)); };
  for (const std::string_view name : dynamic_quantization) {
    if (has(name)) {
      return fmt::format(
          "{} quantizes by the range of all rows of a run, so that an answer would vary a little with "
          "what shares its run; batch_axis 0 accepts that",
          name);
    }
  }
  for (const std::string_view name : random_numbers) {
    if (has(name)) return fmt::format("{} draws random numbers", name);
  }
  return {};
}

std::string repetition_obstacle(const std::map<std::string, std::uint64_t>& operators) {
  constexpr std::array<std::string_view, 2> known_domains{"ai.onnx.ml::", "com.microsoft::"};
  for (const auto& [name, count] : operators) {
    if (std::ranges::find(random_numbers, name) != random_numbers.end()) {
      return fmt::format("{} draws random numbers", name);
    }
    if (name.find("Dropout") != std::string::npos) return fmt::format("{} may draw random numbers", name);
    const bool is_known = name.find("::") == std::string::npos ||
                          std::ranges::any_of(known_domains, [&](auto domain) { return name.starts_with(domain); });
    if (!is_known) return fmt::format("nothing is known of the operator {}", name);
  }
  return {};
}

std::map<std::string, std::uint64_t> operators_of(const ModelInfo& info, const std::filesystem::path& weights,
                                                  const LoadOptions& options) {
  std::map<std::string, std::uint64_t> operators = info.operators;
  if (weights != info.path) operators = ModelInspector::inspect(weights).operators;
  for (const std::filesystem::path& step : {options.before, options.after}) {
    if (step.empty()) continue;
    for (const auto& [name, count] : ModelInspector::inspect(step).operators) operators[name] += count;
  }
  return operators;
}

std::string content_obstacle(const Signature& signature, const onnx::InputFlow& flow) {
  const auto tells = [](std::string_view name, std::string_view what) {
    return fmt::format(
        "{} {}, so that answers may vary with what shares their run, and made-up requests do not show "
        "it; batch_axis 0 states that requests may share runs",
        name, what);
  };
  if (!flow.content_operator.empty()) return tells(flow.content_operator, "works by what the requests of a run hold");
  if (flow.foreign_operator.empty()) return {};
  const auto takes_texts = [](const SignatureEntry& entry) { return entry.type.element == ElementType::string; };
  if (std::ranges::any_of(signature.inputs, takes_texts)) {
    return tells(flow.foreign_operator, "is a custom operator that works on texts");
  }
  std::set<std::string_view> named;
  for (const SignatureEntry& entry : signature.inputs) {
    if (!entry.type.dimensions) continue;
    for (const Dimension& dimension : *entry.type.dimensions) {
      if (has_telling_name(dimension)) named.insert(dimension.name);
    }
  }
  for (const SignatureEntry& entry : signature.outputs) {
    if (!entry.type.dimensions) {
      return tells(flow.foreign_operator,
                   fmt::format("is a custom operator that may decide over the dimensions of output '{}'", entry.name));
    }
    for (std::size_t i = 1; i < entry.type.dimensions->size(); ++i) {
      const Dimension& dimension = (*entry.type.dimensions)[i];
      if (dimension.size || named.contains(dimension.name)) continue;
      return tells(flow.foreign_operator,
                   fmt::format("is a custom operator that may decide over dimension {} of output '{}', which no input "
                               "names",
                               i, entry.name));
    }
  }
  return {};
}

namespace {

// Of the model and its steps. A file may have been removed since it was loaded.
std::string obstacle_in_files(const Signature& signature, const TrialSubject& files) {
  if (!first_axis_obstacle(signature).empty()) return {};
  try {
    for (const std::filesystem::path& step : files.steps) {
      std::string obstacle = content_obstacle(signature, onnx::input_flow(step));
      if (!obstacle.empty()) return obstacle;
    }
    return content_obstacle(signature, onnx::input_flow(files.weights));
  } catch (const Error& error) {
    return fmt::format("what decides over the answers is not known: {}", error.message());
  }
}

}  // namespace

SharingSubject sharing_subject(const ModelInfo& info, const std::filesystem::path& weights,
                               const LoadOptions& options) {
  SharingSubject subject{.files = {.weights = weights, .steps = {}, .external_files = info.external_files},
                         .facts = {.first_axis = first_axis_obstacle(info.signature),
                                   .dimension_names = dimension_name_obstacle(info.signature),
                                   .setting = options.batch_axis,
                                   .setting_from = options.batch_axis_from}};
  if (weights != info.path) subject.files.external_files = ModelInspector::inspect(weights).external_files;
  for (const std::filesystem::path& step : {options.before, options.after}) {
    if (!step.empty()) subject.files.steps.push_back(step);
  }
  subject.facts.operators = operator_obstacle(operators_of(info, weights, options));
  subject.facts.contents = obstacle_in_files(info.signature, subject.files);
  return subject;
}

KnownSharing known_sharing(const ModelInfo& info, const std::filesystem::path& weights, const LoadOptions& options) {
  const SharingSubject subject = sharing_subject(info, weights, options);
  KnownSharing known{.decision = decide_without_trial(subject.facts), .trials = {}};
  if (!known.decision && may_have_kept_trials(subject.files)) {
    known.trials = read_kept_trials(kept_trials_file(subject.files));
  }
  return known;
}

std::optional<RunSharing> decide_without_trial(const SharingFacts& facts) {
  if (facts.setting == BatchAxis::zero && !facts.first_axis.empty()) {
    throw Error(facts.setting_from.starts_with("--") ? ErrorCode::usage : ErrorCode::invalid_config,
                fmt::format("{} is 0, but requests of this model cannot be joined along the first axis: {}; none is "
                            "accepted",
                            facts.setting_from, facts.first_axis));
  }
  if (facts.setting) {
    return RunSharing{facts.setting == BatchAxis::zero, Source::setting,
                      fmt::format("{} is {}", facts.setting_from, setting_name(*facts.setting))};
  }
  if (!facts.first_axis.empty()) return RunSharing{false, Source::signature, facts.first_axis};
  if (!facts.dimension_names.empty()) return RunSharing{false, Source::signature, facts.dimension_names};
  if (!facts.operators.empty()) return RunSharing{false, Source::graph, facts.operators};
  if (!facts.contents.empty()) return RunSharing{false, Source::graph, facts.contents};
  return std::nullopt;
}

RunSharing decide_by_trial(const SharingTrial& trial) {
  switch (trial.outcome) {
    case Outcome::equal:
      return {true, Source::trial,
              fmt::format("{} shared runs of up to {} rows gave the answers of each request alone", trial.shared_runs,
                          trial.max_rows)};
    case Outcome::different:
      return {false, Source::trial, "an answer depends on what shares its run: " + trial.detail};
    case Outcome::changing:
      return {false, Source::trial, "the same request is answered differently each time: " + trial.detail};
    case Outcome::constant:
      return {false, Source::not_proven,
              "the model gives the same outputs for all synthetic inputs, so a trial shows nothing; "
              "batch_axis 0 states that requests may share runs"};
    case Outcome::failed:
      return {
          false, Source::not_proven,
          fmt::format("no trial was possible with synthetic inputs: {}; batch_axis 0 states that requests may share "
                      "runs",
                      trial.detail)};
    case Outcome::out_of_time:
      break;
  }
  return {false, Source::not_proven,
          fmt::format("the trial was stopped: {}; batch_axis 0 states that requests may share runs", trial.detail)};
}

RunSharing too_few_for_a_trial(std::size_t requests) {
  return {false, Source::not_proven,
          fmt::format("a trial would take longer than running {} requests one by one", requests)};
}

}  // namespace gpux::runtime
