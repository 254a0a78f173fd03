#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "gpux/model_info.h"
#include "project/project_schema.h"
#include "project/yaml_document.h"

namespace gpux {

/// What is wrong in one gpux.yml, each with its place.
class ProblemList {
 public:
  explicit ProblemList(std::string file) : file_(std::move(file)) {}

  void add(yaml::Position position, Message message);

  void add(yaml::Position position, std::string_view message) { add(position, Message(std::string(message))); }

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /// Throws invalid_config with all of them in one line, if there are any.
  void throw_if_any() const;

 private:
  std::string file_;
  Message shown_;
  std::size_t count_ = 0;
};

using Positions = std::map<std::string, yaml::Position, std::less<>>;

/// Holds `node` against the table and adds every unknown, refused and missing key and every wrong value to `problems`.
/// `positions` receives the place of each key of the objects ("runtime.gpu.memory").
void check_against_schema(const yaml::TreeNode& node, const SchemaKey& schema, ProblemList& problems,
                          Positions& positions);

/// Parses a file's text with its ${VARIABLES} expanded; what is wrong with those goes to `problems`. Error as of
/// yaml::parse().
std::shared_ptr<const yaml::TreeNode> parse_expanded(std::string_view text, const std::string& name,
                                                     ProblemList& problems);

/// Readers of single values: empty where the text is none.
std::optional<bool> boolean_from(std::string_view text) noexcept;
std::optional<std::int64_t> integer_from(std::string_view text) noexcept;
/// "5", "0.5", "500ms", "5 s", "2m", "1h": more than nothing, at most ten years.
std::optional<std::chrono::milliseconds> duration_from(std::string_view text) noexcept;
/// A finite number: "-0.5", "1e-3".
std::optional<double> number_from(std::string_view text) noexcept;
/// A number above 0, or two with a slash between: "1/255".
std::optional<double> ratio_from(std::string_view text) noexcept;
/// A size, a name, null or -1.
std::optional<Dimension> dimension_from(const yaml::TreeNode& node);

}  // namespace gpux
