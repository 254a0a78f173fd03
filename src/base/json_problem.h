#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace gpux {

/// The parser's error for a message of gpux: "parse error at line 1, column 1: …", without the names that the library
/// gives its exceptions.
std::string json_problem(const nlohmann::json::exception& exception);

}  // namespace gpux
