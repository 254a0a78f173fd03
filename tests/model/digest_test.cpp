// The digest by which vectors of models are told apart.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "model/open_image_encoder.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

const fs::path models = fs::path(GPUX_SOURCE_DIR) / "tests" / "models";

TEST(DigestOfWeights, IsThatOfTheFile) {
  EXPECT_EQ(digest_of_weights(models / "add.onnx"), sha256_of_file(models / "add.onnx"));
}

// Two models whose ONNX files are equal, and whose weights are not.
TEST(DigestOfWeights, CountsExternalData) {
  const test::TemporaryFolder folder;
  for (const char* file : {"external_data.onnx", "external_weight.bin", "external_bias.bin"}) {
    fs::copy_file(models / file, folder.path() / file);
  }
  const fs::path model = folder.path() / "external_data.onnx";
  const std::string first = digest_of_weights(model);
  EXPECT_NE(first, sha256_of_file(model));
  EXPECT_EQ(digest_of_weights(models / "external_data.onnx"), first);
  std::fstream weights(folder.path() / "external_weight.bin", std::ios::in | std::ios::out | std::ios::binary);
  weights.put('\x7f');
  weights.close();
  EXPECT_NE(digest_of_weights(model), first);
}

}  // namespace
}  // namespace gpux
