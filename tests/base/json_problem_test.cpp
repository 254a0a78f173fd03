#include "base/json_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux {
namespace {

TEST(JsonProblem, LeavesTheNamesOfTheLibraryOut) {
  try {
    [[maybe_unused]] const auto json = nlohmann::json::parse("[1,");
    ADD_FAILURE();
  } catch (const nlohmann::json::exception& exception) {
    EXPECT_THAT(json_problem(exception), testing::StartsWith("parse error at line 1"));
  }
  try {
    [[maybe_unused]] const auto value = nlohmann::json("text").at("key");
    ADD_FAILURE();
  } catch (const nlohmann::json::exception& exception) {
    EXPECT_EQ(json_problem(exception), "cannot use at() with string");
  }
}

}  // namespace
}  // namespace gpux
