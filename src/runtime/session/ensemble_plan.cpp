#include "runtime/session/ensemble_plan.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "runtime/session/steps.h"

namespace gpux::runtime {
namespace {

std::optional<std::size_t> index_of(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  if (found == entries.end()) return std::nullopt;
  return static_cast<std::size_t>(found - entries.begin());
}

std::string listed(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : entries) names.push_back(entry.name);
  return join(names);
}

class Planner {
 public:
  Planner(std::span<const EnsembleStep> steps, const std::vector<std::pair<std::string, std::string>>& outputs)
      : steps_(steps), outputs_(outputs) {}

  EnsemblePlan plan() {
    check_names();
    for (std::size_t step = 0; step < steps_.size(); ++step) add_step(step);
    add_outputs();
    if (problems_.empty()) find_unused();
    if (!problems_.empty()) throw Error(ErrorCode::invalid_config, fmt::format("{}", fmt::join(problems_, "; ")));
    return std::move(plan_);
  }

 private:
  void refuse(std::string problem) { problems_.push_back(std::move(problem)); }

  void check_names() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::string& name = steps_[i].name;
      if (name.empty() || name.find('.') != std::string::npos) {
        refuse(fmt::format("a step is called {}; a name without a dot is accepted", in_quotes(name)));
      }
      const auto earlier = steps_.first(i);
      if (std::ranges::find(earlier, name, &EnsembleStep::name) != earlier.end()) {
        refuse(fmt::format("two steps are called {}", in_quotes(name)));
      }
    }
  }

  // "STEP.OUTPUT" of a step before `end`; empty: `text` names no step, or a problem was noted.
  std::optional<std::pair<std::size_t, std::size_t>> find_output(const std::string& text, std::size_t end,
                                                                 const std::string& place, bool& names_step) {
    const std::size_t dot = text.find('.');
    const std::string_view first = std::string_view(text).substr(0, dot);
    const auto step = std::ranges::find(steps_, first, &EnsembleStep::name);
    names_step = dot != std::string::npos && step != steps_.end();
    if (!names_step) return std::nullopt;
    const auto number = static_cast<std::size_t>(step - steps_.begin());
    if (number >= end) {
      refuse(fmt::format("{}: {} is of step {}, which does not run before", place, in_quotes(text), in_quotes(first)));
      return std::nullopt;
    }
    const std::string_view name = std::string_view(text).substr(dot + 1);
    const auto output = index_of(step->signature.outputs, name);
    if (!output) {
      refuse(fmt::format("{}: step {} has no output {}; it has: {}", place, in_quotes(first), in_quotes(name),
                         listed(step->signature.outputs)));
      return std::nullopt;
    }
    return std::pair(number, *output);
  }

  void add_step(std::size_t number) {
    const EnsembleStep& step = steps_[number];
    for (const auto& [name, source] : step.inputs) {
      if (!index_of(step.signature.inputs, name)) {
        refuse(fmt::format("step {}: its model has no input {}; it has: {}", in_quotes(step.name), in_quotes(name),
                           listed(step.signature.inputs)));
      }
    }
    std::vector<PlannedInput>& planned = plan_.inputs.emplace_back();
    for (const SignatureEntry& input : step.signature.inputs) planned.push_back(input_of(number, input));
  }

  PlannedInput input_of(std::size_t number, const SignatureEntry& input) {
    const EnsembleStep& step = steps_[number];
    const std::string place = fmt::format("step {}, input {}", in_quotes(step.name), in_quotes(input.name));
    const auto given = std::ranges::find(step.inputs, input.name, &std::pair<std::string, std::string>::first);
    if (given != step.inputs.end()) {
      bool names_step = false;
      const auto found = find_output(given->second, number, place, names_step);
      if (found) return linked(place, *found, input);
      if (names_step) return {.name = input.name, .step = {}, .index = 0};
      return {.name = input.name, .step = {}, .index = own_input(place, given->second, input)};
    }
    for (std::size_t earlier = number; earlier-- > 0;) {
      const auto output = index_of(steps_[earlier].signature.outputs, input.name);
      if (output) return linked(place, {earlier, *output}, input);
    }
    return {.name = input.name, .step = {}, .index = own_input(place, input.name, input)};
  }

  PlannedInput linked(const std::string& place, std::pair<std::size_t, std::size_t> from, const SignatureEntry& input) {
    const SignatureEntry& output = steps_[from.first].signature.outputs[from.second];
    if (!may_go_on(output.type, input.type)) {
      refuse(fmt::format("{} takes {}, and step {} gives {}", place, to_string(input.type),
                         in_quotes(steps_[from.first].name), to_string(output.type)));
    }
    return {.name = input.name, .step = from.first, .index = from.second};
  }

  // An input of the ensemble, which several steps may take.
  std::size_t own_input(const std::string& place, const std::string& name, const SignatureEntry& input) {
    std::vector<SignatureEntry>& own = plan_.signature.inputs;
    if (const auto known = index_of(own, name)) {
      SignatureEntry& entry = own[*known];
      if (!may_go_on(entry.type, input.type)) {
        refuse(fmt::format("{} takes {}, and an earlier step takes {} as {}", place, to_string(input.type),
                           in_quotes(name), to_string(entry.type)));
      }
      entry.required = entry.required || input.required;
      return *known;
    }
    SignatureEntry entry = input;
    entry.name = name;
    own.push_back(std::move(entry));
    return own.size() - 1;
  }

  void add_outputs() {
    if (outputs_.empty() && !steps_.empty()) {
      for (std::size_t i = 0; i < steps_.back().signature.outputs.size(); ++i) {
        plan_.outputs.emplace_back(steps_.size() - 1, i);
        plan_.signature.outputs.push_back(steps_.back().signature.outputs[i]);
      }
    }
    for (const auto& [name, source] : outputs_) {
      const std::string place = fmt::format("output {}", in_quotes(name));
      bool names_step = false;
      const auto found = find_output(source, steps_.size(), place, names_step);
      if (!found) {
        if (!names_step) refuse(fmt::format("{}: {} is no STEP.OUTPUT", place, in_quotes(source)));
        continue;
      }
      if (index_of(plan_.signature.outputs, name)) refuse(fmt::format("two outputs are called {}", in_quotes(name)));
      plan_.outputs.push_back(*found);
      SignatureEntry entry = steps_[found->first].signature.outputs[found->second];
      entry.name = name;
      plan_.signature.outputs.push_back(std::move(entry));
    }
  }

  void find_unused() {
    std::vector<std::size_t> all(plan_.outputs.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    const auto needed = plan_.needed(all);
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      if (needed[step].empty()) refuse(fmt::format("nothing uses step {}", in_quotes(steps_[step].name)));
    }
  }

  std::span<const EnsembleStep> steps_;
  const std::vector<std::pair<std::string, std::string>>& outputs_;
  EnsemblePlan plan_;
  std::vector<std::string> problems_;
};

void add(std::vector<std::size_t>& indices, std::size_t index) {
  if (std::ranges::find(indices, index) == indices.end()) indices.push_back(index);
}

}  // namespace

std::vector<std::vector<std::size_t>> EnsemblePlan::needed(std::span<const std::size_t> wanted) const {
  std::vector<std::vector<std::size_t>> of_steps(inputs.size());
  for (const std::size_t output : wanted) add(of_steps[outputs[output].first], outputs[output].second);
  for (std::size_t step = inputs.size(); step-- > 0;) {
    if (of_steps[step].empty()) continue;
    for (const PlannedInput& input : inputs[step]) {
      if (input.step) add(of_steps[*input.step], input.index);
    }
  }
  return of_steps;
}

EnsemblePlan plan_ensemble(std::span<const EnsembleStep> steps,
                           const std::vector<std::pair<std::string, std::string>>& outputs) {
  return Planner(steps, outputs).plan();
}

}  // namespace gpux::runtime
