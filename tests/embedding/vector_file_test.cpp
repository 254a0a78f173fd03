#include "embedding/vector_file.h"

#include <array>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/recorded_disk.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;

constexpr std::array<float, 2> vector{0.5F, -1.0F};

std::unique_ptr<VectorWriter> writer_to(const std::string& output, bool resume = false) {
  return std::make_unique<VectorWriter>(vector_target(output, "float", resume),
                                        VectorSource{.model = "m",
                                                     .level = "",
                                                     .digest = "d",
                                                     .dimension = vector.size(),
                                                     .run = nlohmann::ordered_json::object()},
                                        [](std::string_view /*line*/) {});
}

TEST(VectorFiles, SurviveALossOfPowerOnceTheyAreFinished) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.jsonl", "a.npy", "a.f32", "a.vec"}) {
    const fs::path file = folder.path() / name;
    const test::RecordedDisk disk;
    const auto writer = writer_to(file);
    writer->add("text", vector);
    writer->finish();
    EXPECT_EQ(disk.risk_of_replaced(file), "") << name;
  }
  const test::RecordedDisk disk;
  const auto writer = writer_to((folder.path() / "vectors/").string());
  writer->add("text", vector);
  EXPECT_EQ(disk.risk_of_replaced(folder.path() / "vectors" / (sha256_of("text") + ".vec")), "");
}

// What is resumed is compared with it: without it the vectors that are there are of no use.
TEST(VectorFiles, SayWhatTheyWereBegunWithBeforeTheyHaveVectors) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "a.jsonl";
  {
    const test::RecordedDisk disk;
    const auto writer = writer_to(file);
    EXPECT_EQ(disk.risk_of_replaced(folder.path() / "a.jsonl.part.json"), "");
    writer->add("text", vector);
  }
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(writer_to(file, true)->kept(), 1U);
}

}  // namespace
}  // namespace gpux::embedding
