#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/print_json.h"
#include "cli/table.h"
#include "gpux/model_info.h"
#include "gpux/runtime.h"
#include "model/locate.h"

namespace gpux::cli {

/// A gpux.yml as it counts: what it declares, null where it does not say.
Json to_json(const ProjectFile& project);

/// A stored package: names, digest, files, variants.
Json to_json(const StoredModel& stored);

/// "stored digits:1.0.0, digits:latest (57d09c74ff38, 2 files, 5.1 kB)"
std::string stored_line(const StoredModel& stored, std::span<const Reference> names);

/// Which provider runs which nodes, as JSON: for each provider the number of its nodes, their share, and the count of
/// each operator. Null if the session does not report its placement.
Json placement_json(const Runtime& runtime);

/// The report as tables, with their titles.
using Tables = std::vector<std::pair<std::string, Table>>;

/// `project` may be null.
void append_model_tables(const ModelInfo& info, const ProjectFile* project, Tables& tables);
void append_project_table(const ProjectFile& project, Tables& tables);
void append_package_tables(const StoredModel& stored, Tables& tables);
void append_placement_tables(const Runtime& runtime, Tables& tables);

}  // namespace gpux::cli
