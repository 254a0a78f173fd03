#include "daemon/store_sink.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "vector_store/local/vectors_file.h"

namespace gpux::daemon {
namespace {

// Each write adds a segment to the file.
TEST(StoreSink, AFileOfManySmallWritesHasFewSegments) {
  constexpr std::size_t writes = 600;
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "x.gpux";
  VectorFolder folder(scratch.path() / "out");
  StoreSink sink(vector_store::parse_store_url("file:" + path.string()));
  sink.set_folder(folder);
  sink.prepare({.model = "m", .digest = "sha256:aa", .precision = "float32", .dimension = 2});
  EmbeddedEvent event;
  event.vector = {1, 2};
  for (std::size_t i = 0; i < writes; ++i) {
    event.hash = sha256_of(fmt::format("{}", i));
    sink.write({&event, 1}, {});
  }
  EXPECT_TRUE(sink.has(sha256_of("0")));
  const MappedFile mapped(path);
  const vector_store::VectorsFile file = vector_store::read_vectors_file(mapped.bytes(), "x");
  EXPECT_EQ(file.points, writes);
  EXPECT_LE(file.segments.size(), 101U);
}

}  // namespace
}  // namespace gpux::daemon
