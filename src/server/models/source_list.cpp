#include "server/models/source_list.h"

#include <algorithm>

#include "base/failure_of.h"
#include "base/log.h"

namespace gpux::server {

std::optional<Error> SourceList::look(std::vector<ModelSource>& there) {
  std::optional<Error> failure = failure_of([&] { there = look_(); });
  const std::string problem = failure ? failure->message() : "";
  if (problem == problem_) return failure;
  problem_ = problem;
  if (failure) {
    log::warning("the list of models cannot be read; the served models continue: {}", problem);
  } else {
    log::info("the list of models can be read again");
  }
  return failure;
}

std::string name_among(const std::vector<ModelSource>& sources, const std::string& requested) {
  if (std::ranges::find(sources, requested, &ModelSource::name) != sources.end()) return requested;
  std::vector<AliasedVersion> aliased;
  for (const ModelSource& source : sources) aliased.push_back({source.name, source.version, &source.aliases});
  const AliasedVersion* found = find_alias(aliased, requested);
  return found == nullptr ? requested : std::string(found->name);
}

}  // namespace gpux::server
