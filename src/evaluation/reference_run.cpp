#include "evaluation/reference_run.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/own_program.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "model/input_files.h"
#include "onnx/tensor_file.h"
#include "provider/absence.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_writer.h"
#include "tensor/npz.h"

namespace gpux::evaluation {
namespace {

bool has_map(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.map() != nullptr || (sequence != nullptr && std::ranges::any_of(sequence->values, has_map));
}

// Tensors go by files that keep their bits; only a map has no file but JSON, which keeps its numbers.
std::filesystem::path write_input(const std::filesystem::path& folder, std::size_t index, const NamedValue& input) {
  std::filesystem::path file = folder / fmt::format("input_{}", index);
  std::string content;
  if (!has_map(input.second)) {
    file += ".pb";
    content = onnx::write_value(input.second, input.first);
  } else {
    file += ".json";
    append_json(content, input.second, NonFinite::string);
  }
  write_file_atomically(file, content);
  return file;
}

bool only_tensors(const std::vector<SignatureEntry>& entries) {
  return std::all_of(entries.begin(), entries.end(),
                     [](const SignatureEntry& entry) { return entry.type.kind == ValueKind::tensor; });
}

NamedValues read_outputs(const std::filesystem::path& file, const std::vector<SignatureEntry>& entries) {
  const std::string content = read_file(file);
  NamedValues outputs;
  const auto entry_of = [&](std::string_view name) {
    return std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  };
  if (file.extension() == ".npz") {
    NpzReading reading;
    reading.declared = [&](std::string_view name) -> std::optional<ElementType> {
      const auto entry = entry_of(name);
      return entry == entries.end() ? std::nullopt : std::optional(entry->type.element);
    };
    for (auto& [name, tensor] : read_npz(std::as_bytes(std::span(content)), reading)) {
      outputs.emplace_back(name, std::move(tensor));
    }
    return outputs;
  }
  for (const JsonInput& member : split_object(content)) {
    const auto entry = entry_of(member.name);
    if (entry != entries.end())
      outputs.emplace_back(entry->name, read_json_value(member.raw, entry->type, entry->name));
  }
  return outputs;
}

// What says where the child ran.
Verdict verdict_in(const std::filesystem::path& report) {
  const nlohmann::json json = nlohmann::json::parse(read_file(report)).at("verdict");
  Verdict verdict;
  verdict.requested = json.at("requested");
  verdict.active = json.at("active").get<std::vector<std::string>>();
  for (const nlohmann::json& entry : json.at("tried")) {
    ProviderAttempt attempt;
    attempt.id = entry.at("provider");
    attempt.reason = entry.value("reason", "");
    attempt.remedy = Message(entry.value("remedy", ""));
    for (const auto outcome : {ProviderAttempt::Outcome::active, ProviderAttempt::Outcome::no_nodes,
                               ProviderAttempt::Outcome::failed, ProviderAttempt::Outcome::not_needed}) {
      if (entry.at("outcome") == to_string(outcome)) attempt.outcome = outcome;
    }
    verdict.tried.push_back(std::move(attempt));
  }
  return verdict;
}

}  // namespace

ReferenceRun::ReferenceRun(const OpenModel& model, std::string provider)
    : model_(&model), provider_(std::move(provider)) {
  if (lower(provider_) != "cpu") return;
  LoadOptions options;
  options.provider = "cpu";
  options.provider_from = "--reference";
  options.intra_threads = model.settings.options.intra_threads;
  options.custom_operator_libraries = model.settings.options.custom_operator_libraries;
  here_ = std::make_unique<Runtime>(model.located.onnx_file, options);
  active_ = "cpu";
}

NamedValues ReferenceRun::infer(const NamedValues& inputs, const InferOptions& options) {
  return here_ ? here_->infer(inputs, options) : infer_in_child(inputs, options);
}

NamedValues ReferenceRun::infer_in_child(const NamedValues& inputs, const InferOptions& options) {
  const ScratchFolder folder;
  const std::filesystem::path report = folder.path() / "report.json";
  const std::vector<SignatureEntry>& outputs = model_->info.signature.outputs;
  const std::filesystem::path output = folder.path() / (only_tensors(outputs) ? "outputs.npz" : "outputs.json");
  std::vector<std::string> arguments{"run", "--provider=" + provider_, "--non-finite=string",
                                     "--output=" + output.string(), "--report=" + report.string()};
  for (const ProviderLibrary& library : model_->settings.options.provider_libraries) {
    arguments.push_back(fmt::format("--provider-library={}={}", library.name, library.path.string()));
  }
  for (const std::filesystem::path& library : model_->settings.options.custom_operator_libraries) {
    arguments.push_back("--custom-ops=" + library.string());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(
        fmt::format("--input={}=@{}", inputs[i].first, write_input(folder.path(), i, inputs[i]).string()));
  }
  if (options.timeout) arguments.push_back(fmt::format("--timeout={}ms", options.timeout->count()));
  arguments.emplace_back("--");
  arguments.push_back(model_->located.onnx_file.string());
  const ProcessResult child = run_child(std::move(arguments));
  if (child.exit_code != 0)
    throw child_error(child).within(format_message("{} {}", setting_named("reference"), provider_));
  const Verdict verdict = verdict_in(report);
  if (const auto absence = provider::absence_of(verdict)) {
    throw Error(ErrorCode::provider_unavailable, to_line(*absence))
        .within(format_message("{} {}", setting_named("reference"), provider_));
  }
  active_ = join(verdict.active, "+");
  return read_outputs(output, outputs);
}

}  // namespace gpux::evaluation
