#pragma once

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"

/// The models of tests/importer/images, and what transformers makes of pictures and texts with them.
namespace gpux::test {

inline const std::string image_references = GPUX_SOURCE_DIR "/tests/importer/images/";
inline const std::string picture_folder = GPUX_SOURCE_DIR "/tests/image/pictures/";

/// answers.json of a reference, written by scripts/references/image-references.
inline Json image_answers(const std::string& name) {
  return Json::parse(read_file(image_references + name + "/answers.json"));
}

/// The picture that `answers` has at the index.
inline std::string picture_of(const Json& answers, std::size_t index) {
  return picture_folder + answers.at("pictures").at(index).get<std::string>();
}

/// Imports the reference under its name.
inline void import_images(const Program& gpux, const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"import", image_references + name, "-t", name};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = gpux.run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
}

inline void expect_near(const Json& found, const Json& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i].get<double>(), expected[i].get<double>(), tolerance) << what << ", element " << i;
  }
}

}  // namespace gpux::test
