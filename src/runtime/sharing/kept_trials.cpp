#include "runtime/sharing/kept_trials.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/home.h"
#include "base/log.h"
#include "base/sha256.h"
#include "gpux/error.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Outcome = SharingTrial::Outcome;

// Changed with what a trial does, so that results of an earlier gpux are not taken for it.
constexpr std::string_view file_kind = "sharing-trials-1";
constexpr std::size_t max_entries = 16;

constexpr std::array<std::pair<Outcome, std::string_view>, 4> kept_outcomes{{{Outcome::equal, "equal"},
                                                                             {Outcome::different, "different"},
                                                                             {Outcome::changing, "changing"},
                                                                             {Outcome::constant, "constant"}}};

std::string size_prefix(const TrialSubject& subject) {
  std::error_code error;
  const auto size = fs::file_size(subject.weights, error);
  return fmt::format("{}-", error ? 0 : size);
}

fs::path folder() {
  return home_folder() / "sharing";
}

std::string_view name_of(Outcome outcome) {
  for (const auto& [known, name] : kept_outcomes) {
    if (known == outcome) return name;
  }
  return {};
}

std::optional<Outcome> outcome_from(std::string_view name) {
  for (const auto& [outcome, known] : kept_outcomes) {
    if (known == name) return outcome;
  }
  return std::nullopt;
}

}  // namespace

fs::path kept_trials_file(const TrialSubject& subject) {
  std::string text;
  try {
    text = sha256_of_file(subject.weights);
    for (const fs::path& step : subject.steps) text += "\nstep " + sha256_of_file(step);
  } catch (const Error& error) {
    log::info("no earlier trial of shared runs is looked for: {}", error.message());
    return {};
  }
  // They may be many gigabytes: their dates stand for their content.
  for (const ExternalFile& file : subject.external_files) {
    std::error_code error;
    const auto changed = fs::last_write_time(subject.weights.parent_path() / file.location, error);
    text += fmt::format("\ndata {} {} {}", file.location, file.bytes, error ? 0 : changed.time_since_epoch().count());
  }
  return folder() / (size_prefix(subject) + sha256_of(text) + ".json");
}

bool may_have_kept_trials(const TrialSubject& subject) {
  const std::string prefix = size_prefix(subject);
  std::error_code error;
  for (fs::directory_iterator entry(folder(), error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) return true;
  }
  return false;
}

std::vector<KeptTrial> read_kept_trials(const fs::path& file) {
  if (file.empty()) return {};
  std::vector<KeptTrial> trials;
  try {
    const json kept = json::parse(read_file(file, 1 << 20));
    if (kept.at("kind") != file_kind) return {};
    for (const json& entry : kept.at("trials")) {
      const auto outcome = outcome_from(entry.at("outcome").get<std::string>());
      if (!outcome) continue;
      trials.push_back({.computed_by = entry.at("computed_by").get<std::string>(),
                        .provider = entry.at("provider").get<std::string>(),
                        .runtime_version = entry.at("runtime_version").get<std::string>(),
                        .trial = {.outcome = *outcome,
                                  .detail = entry.at("detail").get<std::string>(),
                                  .shared_runs = entry.at("shared_runs").get<int>(),
                                  .max_rows = entry.at("max_rows").get<std::int64_t>()}});
    }
  } catch (const Error&) {
    return {};  // there is none
  } catch (const json::exception& exception) {
    log::debug("'{}' does not hold results of trials: {}", file.string(), exception.what());
    return {};
  }
  return trials;
}

std::optional<KeptTrial> find_kept_trial(const fs::path& file, std::string_view computed_by) {
  std::vector<KeptTrial> trials = read_kept_trials(file);
  const auto found = std::ranges::find(trials, computed_by, &KeptTrial::computed_by);
  if (found == trials.end()) return std::nullopt;
  return std::move(*found);
}

void keep_trial(const fs::path& file, KeptTrial trial) {
  if (file.empty()) return;
  std::vector<KeptTrial> trials = read_kept_trials(file);
  std::erase_if(trials, [&](const KeptTrial& known) { return known.computed_by == trial.computed_by; });
  trials.push_back(std::move(trial));
  if (trials.size() > max_entries) trials.erase(trials.begin());
  json kept{{"kind", file_kind}, {"trials", json::array()}};
  for (const KeptTrial& known : trials) {
    kept["trials"].push_back({{"computed_by", known.computed_by},
                              {"provider", known.provider},
                              {"runtime_version", known.runtime_version},
                              {"outcome", name_of(known.trial.outcome)},
                              {"detail", known.trial.detail},
                              {"shared_runs", known.trial.shared_runs},
                              {"max_rows", known.trial.max_rows}});
  }
  try {
    write_file_atomically(file, kept.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  } catch (const Error& error) {
    log::info("the trial of shared runs will be made again: {}", error.message());
  }
}

bool is_worth_keeping(const SharingTrial& trial) {
  return !name_of(trial.outcome).empty();
}

}  // namespace gpux::runtime
