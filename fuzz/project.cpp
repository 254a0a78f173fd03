// A gpux.yml: YAML, variables, schema, and what binding it says.
#include <cstdlib>

#include "fuzzer.h"
#include "project/project_file.h"
#include "project/signature_match.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  static const bool set = ::setenv("FOUR", "4", 1) == 0 && ::setenv("EMPTY", "", 1) == 0;
  require(set, "no environment");
  const ProjectFile project = parse_project_file(input, "/models/digits/gpux.yml");
  require(!project.name.empty() && project.source.is_absolute(), "accepted without a name or a source");
  for (const auto& [key, position] : project.positions) require(!project.where(key).empty(), "a key without a place");
  static_cast<void>(project.provider_request());
  static_cast<void>(compare(project, {}));
  require_portable(project);
}
