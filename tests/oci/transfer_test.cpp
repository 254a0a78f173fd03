#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "registry/oci/repository.h"
#include "store/store.h"

namespace gpux::oci {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(UploadRange, IsThatOfTheProtocol) {
  EXPECT_EQ(parse_upload_range("0-1023"), 1023U);
  EXPECT_EQ(parse_upload_range("bytes=0-9"), 9U);
  for (const char* text : {"", "1-2", "0-", "0", "0-x", "0--1", "-5", "0-99999999999999999999999"}) {
    EXPECT_EQ(parse_upload_range(text), std::nullopt) << text;
  }
}

TEST(IncomingBlob, ContinuesWhereAnAttemptEnded) {
  const test::TemporaryFolder folder;
  const std::string content = "the content of a blob";
  const Blob blob{sha256_of(content), content.size()};
  const IncomingBlobs blobs(folder.path());
  {
    IncomingBlob first = blobs.receive(blob);
    first.append(bytes_of(content.substr(0, 5)));
  }
  EXPECT_FALSE(blobs.has(blob));
  EXPECT_EQ(blobs.received(blob), 5U);
  IncomingBlob second = blobs.receive(blob);
  EXPECT_EQ(second.received(), 5U);
  EXPECT_THROW(second.append(bytes_of(content)), Error) << "more than the blob has";
  second.append(bytes_of(content.substr(5)));
  EXPECT_TRUE(second.finish());
  EXPECT_TRUE(blobs.has(blob));
}

TEST(IncomingBlob, OtherContentIsNotKept) {
  const test::TemporaryFolder folder;
  const Blob blob{sha256_of("right"), 5};
  const IncomingBlobs blobs(folder.path());
  IncomingBlob incoming = blobs.receive(blob);
  incoming.append(bytes_of("wrong"));
  EXPECT_FALSE(incoming.finish());
  EXPECT_FALSE(blobs.has(blob));
  EXPECT_EQ(incoming.received(), 0U);
  incoming.append(bytes_of("right"));
  EXPECT_TRUE(incoming.finish());
  EXPECT_TRUE(blobs.has(blob));
}

TEST(IncomingBlob, PruneLeavesWhatIsBeingReceived) {
  const test::TemporaryFolder folder;
  Store store(folder.path());
  const Blob blob{sha256_of("right"), 5};
  {
    const IncomingBlobs blobs(folder.path());
    IncomingBlob incoming = blobs.receive(blob);
    incoming.append(bytes_of("ri"));
    store.prune();
    EXPECT_EQ(blobs.received(blob), 2U);
  }
  store.prune();
  EXPECT_EQ(IncomingBlobs(folder.path()).received(blob), 0U);
}

TEST(Adopt, NeedsEveryContent) {
  const test::TemporaryFolder folder;
  Store store(folder.path());
  const std::string a(64, 'a');
  const std::string manifest =
      R"({"config": {"digest": "sha256:)" + a + R"(", "size": 1, "mediaType": "x"}, "layers": [{"digest": "sha256:)" +
      a +
      R"(", "size": 1, "mediaType": "application/x.raw", "annotations": {"org.opencontainers.image.title": "m.onnx"}}]})";
  const std::vector<Reference> names{{"x", "1"}};
  EXPECT_THROW(store.adopt(manifest, IncomingBlobs(folder.path()), names, "a registry"), Error);
  EXPECT_TRUE(store.list().empty());
}

}  // namespace
}  // namespace gpux::oci
