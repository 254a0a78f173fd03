#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace gpux {

/// What is wrong with a JSON text, as a message can say it: "parse error at line 1, column 1: …", without the names
/// that the library gives its exceptions.
std::string json_problem(const nlohmann::json::exception& exception);

}  // namespace gpux
