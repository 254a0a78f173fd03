#include "gpux/verdict.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "provider/device_json.h"
#include "provider/own_provider.h"
#include "provider/table.h"

namespace gpux {

using Outcome = ProviderAttempt::Outcome;

const char* to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::active:
      return "active";
    case Outcome::no_nodes:
      return "no_nodes";
    case Outcome::unavailable:
      return "unavailable";
    case Outcome::failed:
      return "failed";
    case Outcome::not_needed:
      return "not_needed";
  }
  return "unavailable";
}

namespace {

// Whether all that is known of it is that it is for other systems, which nobody who asks for any GPU needs to hear.
bool is_for_other_systems(const ProviderAttempt& attempt) {
  const provider::ProviderRow* row = provider::find_row(attempt.id);
  return row != nullptr && attempt.reason == provider::other_systems(*row);
}

// Whether the line for people gives the reason. A provider that was not requested by name and is not on this machine is
// left out, unless a GPU was requested and none runs.
bool is_worth_reporting(const ProviderAttempt& attempt, const Verdict& verdict) {
  if (attempt.id == "cpu") return false;
  if (attempt.outcome == Outcome::failed || attempt.outcome == Outcome::no_nodes) return true;
  if (verdict.requested == "gpu") {
    const bool on_cpu = verdict.active.empty() || verdict.active == std::vector<std::string>{"cpu"};
    return on_cpu && attempt.outcome != Outcome::active && !is_for_other_systems(attempt);
  }
  if (provider::is_own(attempt.id) && attempt.outcome == Outcome::not_needed) return verdict.requested == "auto";
  return attempt.outcome == Outcome::unavailable && verdict.requested != "auto" && verdict.requested != "fastest";
}

// "; not tensorrt, cuda: no NVIDIA GPU on this machine; not …": neighbours with the same reason share it.
std::string rejections(const Verdict& verdict, const NameOfSubject& name_of) {
  std::string text;
  const ProviderAttempt* previous = nullptr;
  std::vector<std::string> ids;
  const auto end_group = [&] {
    if (previous == nullptr) return;
    text += fmt::format("; not {}: {}", join(ids), previous->reason);
    if (!previous->remedy.empty()) text += fmt::format(" (remedy: {})", to_string(previous->remedy, name_of));
    ids.clear();
  };
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (!is_worth_reporting(attempt, verdict)) continue;
    if (previous != nullptr && (previous->reason != attempt.reason || previous->remedy != attempt.remedy)) end_group();
    ids.push_back(attempt.id);
    previous = &attempt;
  }
  end_group();
  return text;
}

// " (9 of 9 nodes, device 1: NVIDIA H100)": the device where there are several.
std::string where(const ProviderAttempt& attempt, const Verdict& verdict) {
  std::vector<std::string> parts;
  if (verdict.placement_known && verdict.node_count != 0) {
    parts.push_back(fmt::format("{} of {} nodes", attempt.node_count, verdict.node_count));
  }
  if (attempt.device && attempt.devices.size() > 1) {
    const std::string& name = attempt.device->name;
    parts.push_back(fmt::format("device {}{}{}", attempt.device->index, name.empty() ? "" : ": ", name));
  }
  return parts.empty() ? std::string() : fmt::format(" ({})", join(parts));
}

}  // namespace

std::string to_line(const Verdict& verdict) {
  return to_line(verdict, nullptr);
}

std::string to_line(const Verdict& verdict, const NameOfSubject& name_of) {
  std::string line;
  for (const std::string& id : verdict.active) {
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.id != id) continue;
      line += line.empty() ? "ran on " : ", ";
      line += id;
      line += where(attempt, verdict);
    }
  }
  if (line.empty()) line = "ran nowhere";
  if (!verdict.precision.empty()) line += " in " + verdict.precision;
  line += fmt::format("; asked for {}", verdict.requested);
  if (!verdict.requested_from.empty()) line += fmt::format(" ({})", verdict.requested_from);
  line += rejections(verdict, name_of);
  for (const Message& note : verdict.notes) line += "; " + to_string(note, name_of);
  return line;
}

std::string to_json(const Verdict& verdict) {
  return to_json(verdict, nullptr);
}

std::string to_json(const Verdict& verdict, const NameOfSubject& name_of) {
  nlohmann::ordered_json json;
  json["requested"] = verdict.requested;
  json["requested_from"] = verdict.requested_from;
  json["active"] = verdict.active;
  json["fell_back"] = verdict.fell_back;
  json["node_count"] = verdict.node_count;
  if (verdict.precision.empty()) {
    json["precision"] = nullptr;
  } else {
    json["precision"] = verdict.precision;
  }
  json["placement_known"] = verdict.placement_known;
  auto& tried = json["tried"] = nlohmann::ordered_json::array();
  for (const ProviderAttempt& attempt : verdict.tried) {
    nlohmann::ordered_json entry;
    entry["provider"] = attempt.id;
    entry["ort_name"] = attempt.ort_name;
    if (!attempt.source.empty()) entry["source"] = attempt.source;
    entry["outcome"] = to_string(attempt.outcome);
    if (!attempt.reason.empty()) entry["reason"] = attempt.reason;
    if (!attempt.remedy.empty()) entry["remedy"] = to_string(attempt.remedy, name_of);
    entry["nodes"] = attempt.node_count;
    entry["share"] = attempt.node_share;
    auto& devices = entry["devices"] = nlohmann::ordered_json::array();
    for (const Device& device : attempt.devices) devices.push_back(provider::to_json(device));
    if (attempt.device) entry["device"] = attempt.device->index;
    auto& options = entry["options"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : attempt.options) options[name] = value;
    if (!attempt.shapes.empty()) entry["shapes"] = {{"profile", attempt.shapes}, {"from", attempt.shapes_from}};
    if (!attempt.engine_folder.empty()) {
      entry["engines"] = {{"folder", attempt.engine_folder}, {"kept", attempt.has_kept_engine}};
    }
    tried.push_back(std::move(entry));
  }
  auto& notes = json["notes"] = nlohmann::ordered_json::array();
  for (const Message& note : verdict.notes) notes.push_back(to_string(note, name_of));
  json["onnxruntime"] = {{"version", verdict.runtime_version}, {"path", verdict.runtime_path}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gpux
