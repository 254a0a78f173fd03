#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gpux::test {

/// The data of server-sent events that have names: each is the "type" of its data, too.
template <typename Json = nlohmann::json>
std::vector<Json> named_events(const std::string& body) {
  std::vector<Json> events;
  std::istringstream lines(body);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with(':')) continue;
    if (line.starts_with("event: ")) {
      name = line.substr(7);
      continue;
    }
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    events.push_back(Json::parse(line.substr(6)));
    EXPECT_EQ(events.back().at("type"), name);
  }
  return events;
}

/// The types of the events, with those that follow each other joined to one.
inline std::vector<std::string> types_of(const std::vector<nlohmann::json>& events) {
  std::vector<std::string> types;
  for (const nlohmann::json& event : events) {
    const std::string type = event.at("type");
    if (types.empty() || types.back() != type) types.push_back(type);
  }
  return types;
}

}  // namespace gpux::test
