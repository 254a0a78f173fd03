#pragma once

#include <memory>
#include <string>
#include <vector>

#include "project/project_schema.h"
#include "project/yaml_document.h"

namespace gpux {

/// A file that a stranger wrote, without the keys that are not for it to decide (InPackage). `ignored` receives each of
/// them that has a value: "serving.host". What is unknown or wrong stays for check_against_schema(). Pure.
std::shared_ptr<const yaml::TreeNode> without_decisions(const std::shared_ptr<const yaml::TreeNode>& file,
                                                        const SchemaKey& schema, std::vector<std::string>& ignored);

}  // namespace gpux
