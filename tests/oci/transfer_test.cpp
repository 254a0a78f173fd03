#include <fmt/format.h>
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

TEST(Adopt, FailsUntilEveryContentIsStored) {
  const test::TemporaryFolder folder;
  Store store(folder.path());
  const std::string a(64, 'a');
  const std::string manifest =
      R"({"config": {"digest": "sha256:)" + a + R"(", "size": 1, "mediaType": "x"}, "layers": [{"digest": "sha256:)" +
      a +
      R"(", "size": 1, "mediaType": "application/x.raw", "annotations": {"org.opencontainers.image.title": "m.onnx"}}]})";
  const std::vector<Reference> names{{"x", "1"}};
  int calls = 0;
  EXPECT_THROW(store.adopt(manifest, IncomingBlobs(folder.path()), names, "a registry", [&] { ++calls; }), Error);
  EXPECT_GT(calls, 1) << "what is missing is received again";
  EXPECT_TRUE(store.list().empty());
}

/// A package of one file and its config, as a registry would have it.
struct SmallPackage {
  std::string config = "{}", model = "graph";

  [[nodiscard]] std::string manifest() const {
    return fmt::format(
        R"({{"schemaVersion": 2, "config": {{"digest": "sha256:{}", "size": {}, "mediaType": "x"}}, "layers": [)"
        R"({{"digest": "sha256:{}", "size": {}, "mediaType": "application/x.raw", "annotations": )"
        R"({{"org.opencontainers.image.title": "m.onnx"}}}}]}})",
        sha256_of(config), config.size(), sha256_of(model), model.size());
  }

  void receive(const Store& store, const IncomingBlobs& blobs) const {
    for (const std::string& content : {config, model}) {
      const Blob blob{sha256_of(content), content.size()};
      if (store.has(blob)) continue;
      IncomingBlob incoming = blobs.receive(blob);
      incoming.restart();
      if (!incoming.is_finished()) incoming.append(bytes_of(content));
      ASSERT_TRUE(incoming.finish());
    }
  }
};

// Between the moment when a pull finds a file in the store and the moment when the package gets its name, `gpux rm` of
// another model, or `gpux prune`, may take that file away.
TEST(Adopt, ReceivesAgainWhatWasRemovedMeanwhile) {
  const test::TemporaryFolder folder;
  Store store(folder.path());
  const IncomingBlobs blobs(folder.path());
  const SmallPackage package;
  const std::vector<Reference> first{{"x", "1"}}, second{{"y", "1"}};
  store.adopt(package.manifest(), blobs, first, "a registry", [&] { package.receive(store, blobs); });
  int calls = 0;
  const StoredModel stored = store.adopt(package.manifest(), blobs, second, "a registry", [&] {
    package.receive(store, blobs);
    if (++calls == 1) Store(folder.path()).remove({"x", "1"});
  });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(store.verify(stored).empty());
  ASSERT_EQ(store.list().size(), 1U);
  EXPECT_TRUE(store.list().front().damage.empty());
}

TEST(IncomingBlob, TellsThatAnotherReceivesIt) {
  const test::TemporaryFolder folder;
  const IncomingBlobs blobs(folder.path());
  const Blob blob{sha256_of("right"), 5};
  std::optional<IncomingBlob> first(blobs.receive(blob));
  first->append(bytes_of("right"));
  EXPECT_THROW((void)blobs.receive(blob, [] { throw Error(ErrorCode::interrupted, "stop"); }), Error);
  int calls = 0;
  const IncomingBlob second = blobs.receive(blob, [&] {
    if (++calls != 2) return;
    EXPECT_TRUE(first->finish());
    first.reset();
  });
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(second.is_finished());
}

// A registry names its token server: credentials go there only where they are as safe as at the registry.
TEST(TokenServer, GetsCredentialsAsSafelyAsTheRegistry) {
  struct Row {
    const char* registry;
    const char* token_server;
    bool may;
  };

  for (const auto& [registry, token_server, may] : std::vector<Row>{
           {"https://registry.example/", "https://auth.example/token", true},
           {"https://registry.example/", "http://auth.example/token", false},
           {"https://registry.example/", "http://127.0.0.1:5001/token", false},
           {"https://registry.example/", "http://localhost/token", false},
           {"https://localhost:5000/", "http://localhost:5001/token", false},
           {"http://localhost:5000/", "http://127.0.0.1:5001/token", true},
           {"http://localhost:5000/", "http://auth.example/token", false},
           {"http://localhost:5000/", "https://auth.example/token", true},
           {"http://plain.example/", "http://plain.example:5001/token", true},
           {"http://plain.example/", "http://auth.example/token", false},
           {"http://plain.example/", "http://allowed.example/token", true},
           {"http://plain.example/", "http://localhost/token", false},
       }) {
    EXPECT_EQ(may_have_credentials(registry::parse_url(registry), registry::parse_url(token_server),
                                   {"plain.example", "allowed.example"}),
              may)
        << registry << " " << token_server;
  }
}

}  // namespace
}  // namespace gpux::oci
