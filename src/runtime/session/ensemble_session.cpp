#include "runtime/session/ensemble_session.h"

#include <algorithm>

#include <fmt/format.h>

#include "gpux/error.h"
#include "isolation/remote_session.h"
#include "runtime/check_inputs.h"
#include "runtime/runtime_state.h"

namespace gpux::runtime {

EnsembleSession::EnsembleSession(EnsemblePlan plan, std::vector<std::string> names, std::vector<Runtime> steps)
    : plan_(std::move(plan)), names_(std::move(names)), steps_(std::move(steps)) {
  for (const SignatureEntry& output : plan_.signature.outputs) output_names_.push_back(output.name);
}

Runtime EnsembleSession::make(EnsemblePlan plan, std::vector<std::string> names, std::vector<Runtime> steps,
                              ModelInfo info, const LoadOptions& options) {
  std::vector<std::pair<std::string, const Verdict*>> verdicts;
  std::string computed_by;
  std::chrono::duration<double, std::milli> load_time{};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    verdicts.emplace_back(names[i], &steps[i].verdict());
    computed_by += fmt::format("step {}\n{}", names[i], steps[i].state_->loaded.computed_by);
    load_time += steps[i].load_time();
  }
  Loaded loaded{.session = nullptr,
                .verdict = verdict_of_steps(verdicts),
                .weights_file = info.path,
                .profile_prefix = {},
                .computed_by = std::move(computed_by),
                .identity = {},
                .written_graph = {}};
  auto session = std::make_unique<EnsembleSession>(std::move(plan), std::move(names), std::move(steps));
  auto state = std::make_shared<Runtime::State>(std::move(info), std::move(loaded), std::move(session), options);
  state->load_time = load_time;
  return Runtime(std::move(state));
}

NamedValues EnsembleSession::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                                 WorkerAbsence absence) const {
  const std::vector<std::vector<std::size_t>> needed = plan_.needed(outputs);
  std::vector<std::vector<std::optional<Value>>> results(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (needed[i].empty()) continue;
    NamedValues given;
    for (const PlannedInput& input : plan_.inputs[i]) {
      if (input.step) {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): an earlier step, which was needed for it
        given.emplace_back(input.name, *results[*input.step][input.index]);
        continue;
      }
      const std::string& own = plan_.signature.inputs[input.index].name;
      const auto found = std::ranges::find(inputs, own, &NamedValues::value_type::first);
      if (found != inputs.end()) given.emplace_back(input.name, found->second);
    }
    const Runtime::State& step = *steps_[i].state_;
    NamedValues made;
    try {
      check_inputs(step.info.signature, given);
      made = step.run(given, needed[i], handle, absence);
    } catch (const isolation::WorkerEnded&) {
      throw;
    } catch (const Error& error) {
      throw error.within(fmt::format("step '{}'", names_[i]));
    }
    results[i].resize(step.info.signature.outputs.size());
    for (std::size_t k = 0; k < made.size(); ++k) results[i][needed[i][k]] = std::move(made[k].second);
  }
  NamedValues all;
  for (const std::size_t output : outputs) {
    const auto& [step, index] = plan_.outputs[output];
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): needed for it
    all.emplace_back(output_names_[output], *results[step][index]);
  }
  return all;
}

Value EnsembleSession::run_in_place(const NamedValues& /*inputs*/, const NamedValues& /*in_place*/,
                                    std::size_t /*output*/, bool /*all_logits*/, StopHandle& /*handle*/) const {
  throw Error(ErrorCode::usage, "an ensemble updates no caches in place");
}

std::vector<Runtime::PlacedNode> EnsembleSession::placement(const Verdict& /*verdict*/) const {
  std::vector<Runtime::PlacedNode> all;
  for (const Runtime& step : steps_) {
    for (Runtime::PlacedNode& node : step.placement()) all.push_back(std::move(node));
  }
  return all;
}

std::optional<std::string> EnsembleSession::lost_device() const {
  for (const Runtime& step : steps_) {
    if (auto lost = step.lost_device()) return lost;
  }
  return std::nullopt;
}

std::optional<WorkerStatus> EnsembleSession::worker() const {
  std::optional<WorkerStatus> first;
  for (const Runtime& step : steps_) {
    const std::optional<WorkerStatus> status = step.worker();
    if (status && status->state != WorkerStatus::State::ready) return status;
    if (!first) first = status;
  }
  return first;
}

std::vector<std::pair<std::string, const Runtime*>> EnsembleSession::steps() const {
  std::vector<std::pair<std::string, const Runtime*>> all;
  for (std::size_t i = 0; i < steps_.size(); ++i) all.emplace_back(names_[i], &steps_[i]);
  return all;
}

Verdict verdict_of_steps(const std::vector<std::pair<std::string, const Verdict*>>& steps) {
  using Outcome = ProviderAttempt::Outcome;
  Verdict whole;
  whole.placement_known = true;
  for (const auto& [name, verdict] : steps) {
    const bool is_first = whole.tried.empty();
    if (is_first) {
      whole.requested = verdict->requested;
      whole.requested_from = verdict->requested_from;
      whole.precision = verdict->precision;
      whole.runtime_version = verdict->runtime_version;
      whole.runtime_path = verdict->runtime_path;
    }
    if (whole.precision != verdict->precision) whole.precision.clear();
    whole.node_count += verdict->node_count;
    whole.placement_known = whole.placement_known && verdict->placement_known;
    whole.fell_back = whole.fell_back || verdict->fell_back;
    for (const ProviderAttempt& attempt : verdict->tried) {
      const auto known = std::ranges::find(whole.tried, attempt.id, &ProviderAttempt::id);
      if (known == whole.tried.end()) {
        whole.tried.push_back(attempt);
        // They are about inputs of the step.
        whole.tried.back().shapes.clear();
        whole.tried.back().shapes_from.clear();
        continue;
      }
      known->node_count += attempt.node_count;
      if (known->outcome != Outcome::active && attempt.outcome == Outcome::active) {
        known->outcome = Outcome::active;
        known->reason.clear();
        known->remedy = {};
        known->device = attempt.device;
        known->options = attempt.options;
      }
    }
  }
  // Where all ran alike, the whole says it.
  const Verdict& first = *steps.front().second;
  const bool are_alike = std::ranges::all_of(steps, [&](const auto& step) {
    const Verdict& own = *step.second;
    return own.active == first.active && own.precision == first.precision && !own.fell_back && own.notes.empty();
  });
  for (const auto& [name, verdict] : steps) {
    if (!are_alike) whole.notes.emplace_back(fmt::format("step '{}' {}", name, to_line(*verdict)));
  }
  for (ProviderAttempt& attempt : whole.tried) {
    attempt.node_share =
        whole.node_count == 0 ? 0 : static_cast<double>(attempt.node_count) / static_cast<double>(whole.node_count);
    if (attempt.outcome == Outcome::active) whole.active.push_back(attempt.id);
  }
  std::ranges::stable_sort(whole.active, std::ranges::greater(), [&](const std::string& id) {
    return std::ranges::find(whole.tried, id, &ProviderAttempt::id)->node_count;
  });
  return whole;
}

}  // namespace gpux::runtime
