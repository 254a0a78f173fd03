#include "provider/select.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_message.h"
#include "provider/remedy.h"
#include "provider/table.h"

namespace gpux::provider {
namespace {

using Outcome = ProviderAttempt::Outcome;
using Form = Request::Form;

const ProviderReport* report_of(std::span<const ProviderReport> reports, const std::string& id) {
  const auto found = std::find_if(reports.begin(), reports.end(), [&](const auto& report) { return report.id == id; });
  return found == reports.end() ? nullptr : &*found;
}

// auto and gpu pass over what is there only as software.
bool wants_hardware(const Request& request) {
  return request.form == Form::automatic || (request.form == Form::kind && request.ids[0] == "gpu");
}

bool is_of_row(const std::string& id) {
  const ProviderRow* row = find_row(id);
  return row != nullptr && row->id == id;
}

std::vector<std::string> own_names_in(std::span<const ProviderReport> reports) {
  std::vector<std::string> names;
  for (const ProviderReport& report : reports) {
    if (!is_of_row(report.id)) names.push_back(report.id);
  }
  return names;
}

// What a plugin of no row is for is known by its devices alone, once it has listed them.
bool lacks_devices_for(const Request& request, const ProviderReport& report) {
  if (is_of_row(report.id) || report.devices.empty()) return false;
  const std::string kind = wants_hardware(request) ? "gpu" : "npu";
  return std::ranges::find(report.devices, kind, &Device::kind) == report.devices.end();
}

bool in_chain_of(const std::string& first, const std::string& id) {
  const ProviderRow* row = find_row(first);
  return row != nullptr && std::find(row->chain.begin(), row->chain.end(), id) != row->chain.end();
}

bool bound_elsewhere(const ProviderReport& report, const std::filesystem::path& core) {
  return !core.empty() && !report.core.empty() && report.core != core;
}

// Hardware that is there while its provider is not installed is worth a word under auto.
void note_idle_hardware(std::span<const ProviderReport> reports, Verdict& verdict) {
  if (std::any_of(reports.begin(), reports.end(),
                  [](const auto& report) { return report.available && report.accelerated; })) {
    return;
  }
  for (const ProviderReport& report : reports) {
    const ProviderRow* row = find_row(report.id);
    if (report.available || row == nullptr || row->vendor_ids.empty() || report.remedy.empty()) continue;
    verdict.notes.push_back(format_message("there is an {} but {} cannot be used: {} (remedy: {})", row->hardware,
                                           report.id, report.reason, report.remedy));
  }
}

}  // namespace

std::vector<std::string> Selection::chosen() const {
  std::vector<std::string> ids;
  for (const Step& step : steps) {
    if (step.outcome == Outcome::active) ids.push_back(step.id);
  }
  return ids;
}

Selection select(const Request& request, std::span<const ProviderReport> reports, System system,
                 const std::filesystem::path& core) {
  Selection selection;
  const bool one_accelerator = wants_hardware(request) || request.form == Form::kind;
  std::string first;
  for (const std::string& id : order_of(request, system, own_names_in(reports))) {
    Selection::Step step{.id = id, .outcome = Outcome::unavailable, .reason = {}, .remedy = {}};
    const ProviderReport* report = report_of(reports, id);
    if (report == nullptr) {
      step.reason = "not known on this machine";
    } else if (!report->available) {
      step.reason = report->reason;
      step.remedy = report->remedy;
    } else if (id != "cpu" && wants_hardware(request) && !report->accelerated) {
      step.outcome = Outcome::not_needed;
      step.reason = "only on a processor or software adapter here";
      step.remedy = format_message("ask for it by name: {} {}", setting_named("provider"), id);
    } else if (one_accelerator && lacks_devices_for(request, *report)) {
      step.outcome = Outcome::not_needed;
      step.reason = fmt::format("it has no {} here", wants_hardware(request) ? "GPU" : "NPU");
      step.remedy = format_message("ask for it by name: {} {}", setting_named("provider"), id);
    } else if (id != "cpu" && one_accelerator && !first.empty() && !in_chain_of(first, id)) {
      step.outcome = Outcome::not_needed;
      step.reason = fmt::format("{} came first", first);
    } else if (bound_elsewhere(*report, core)) {
      step.other_core = true;
      step.reason = fmt::format("not with this core: it needs '{}'", report->core.string());
      step.remedy = ask_first(id);
    } else {
      step.outcome = Outcome::active;
      if (first.empty() && id != "cpu") first = id;
    }
    selection.steps.push_back(std::move(step));
  }
  return selection;
}

Verdict planned_verdict(const Request& request, const Selection& selection, std::span<const ProviderReport> reports) {
  Verdict verdict;
  verdict.requested = request.text;
  for (const std::string& remark : request.remarks) verdict.notes.emplace_back(remark);
  if (request.form == Form::automatic) note_idle_hardware(reports, verdict);
  for (const Selection::Step& step : selection.steps) {
    ProviderAttempt attempt;
    attempt.id = step.id;
    attempt.outcome = step.outcome;
    attempt.reason = step.reason;
    attempt.remedy = step.remedy;
    attempt.other_core = step.other_core;
    if (const ProviderReport* report = report_of(reports, step.id)) {
      attempt.ort_name = report->ort_name;
      attempt.source = report->source;
      attempt.devices = report->devices;
    }
    verdict.tried.push_back(std::move(attempt));
  }
  return verdict;
}

std::filesystem::path core_for(const Request& request, std::span<const ProviderReport> reports, System system) {
  const std::vector<std::string> chosen = select(request, reports, system).chosen();
  if (chosen.empty() || request.form == Form::fastest) return {};
  const ProviderReport* report = report_of(reports, chosen.front());
  return report == nullptr ? std::filesystem::path() : report->core;
}

}  // namespace gpux::provider
