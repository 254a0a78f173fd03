#include "vector_store/store_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

using Kind = StoreUrl::Kind;
using testing::HasSubstr;
using testing::Not;

TEST(StoreUrl, IsReadInAllItsForms) {
  const std::pair<const char*, StoreUrl> table[]{
      {"postgres://localhost/shop",
       {Kind::postgres, "postgres://localhost/shop", "gpux_vectors", "", "postgres://localhost/shop"}},
      {"postgresql://ann:pa%20ss@db:6000/shop?collection=items&sslmode=require",
       {Kind::postgres, "postgresql://ann:pa%20ss@db:6000/shop?sslmode=require", "items", "",
        "postgres://ann@db:6000/shop?collection=items"}},
      {"postgres:///?host=/run/pg&index=none&collection=my%20%22own%22",
       {Kind::postgres, "postgres:///?host=/run/pg", "my \"own\"", "", "postgres://?collection=my%20%22own%22", false}},
      {"postgres://a,b:1/x?index=hnsw",
       {Kind::postgres, "postgres://a,b:1/x", "gpux_vectors", "", "postgres://a,b:1/x"}},
      {"qdrant://localhost/items", {Kind::qdrant, "http://localhost:6333", "items", "", "qdrant://localhost/items"}},
      {"qdrant://:k%2Fey@q.example:443/a%20b?tls=true",
       {Kind::qdrant, "https://q.example:443", "a b", "k/ey", "qdrant://q.example:443/a%20b"}},
      {"qdrant://[::1]/x", {Kind::qdrant, "http://[::1]:6333", "x", "", "qdrant://[::1]/x"}},
      {"qdrant://[::1]:7/x", {Kind::qdrant, "http://[::1]:7", "x", "", "qdrant://[::1]:7/x"}},
      {"qdrant://localhost", {Kind::qdrant, "http://localhost:6333", "gpux_vectors", "", "qdrant://localhost"}},
      {"postgres://ann:p%40ss%2F%3F%25@[::1]:7,b/x%40y?user=a%40b",
       {Kind::postgres, "postgres://ann:p%40ss%2F%3F%25@[::1]:7,b/x%40y?user=a%40b", "gpux_vectors", "",
        "postgres://ann@[::1]:7,b/x%40y"}},
      {"file:a@b/c@d", {Kind::file, "a@b/c@d", "", "", "a@b/c@d"}},
      {"file:a/b.gpux", {Kind::file, "a/b.gpux", "", "", "a/b.gpux"}},
      {"file:///a/b", {Kind::file, "/a/b", "", "", "/a/b"}},
  };
  for (const auto& [text, url] : table) {
    EXPECT_TRUE(is_store_url(text)) << text;
    EXPECT_EQ(parse_store_url(text), url) << text << " " << parse_store_url(text).shown;
  }
}

TEST(StoreUrl, IsRefusedByNameAndNeverWithItsPassword) {
  const std::pair<std::string, const char*> table[]{
      {"mysql://localhost/x", "is no address of a vector store"},
      {"mysql://ann:secret@localhost/x", "the address is no address"},
      {"postgres://ann:secret@h/x?index=ivf", "index='ivf'; accepted: hnsw, none"},
      {"postgres://ann:secret@h/x?collection=", "a name has 1 to 48 bytes"},
      {"postgres://ann:secret@h/x?collection=%00", "a name has 1 to 48 bytes"},
      {"postgres://ann:secret@h/x?collection=%4", "'%' is followed by two hexadecimal digits"},
      {"postgres://ann:secret@h/x?collection=" + std::string(49, 'a'), "a name has 1 to 48 bytes"},
      {"postgres://ann:secret@h/x?collection=gpux_staging", "gpux keeps its own data in it"},
      {"qdrant://:secret@h/gpux_collections", "gpux keeps its own data in it"},
      {"postgres://ann:secret@h/\nx", "control characters"},
      {"qdrant://ann:secret@h/x", "accepted: qdrant://[:KEY@]HOST"},
      {"qdrant://:secret@/x", "accepted: qdrant://[:KEY@]HOST"},
      {"qdrant://:secret@h/x?tls=1", "the parameter 'tls'; accepted: tls=true, tls=false"},
      {"qdrant://:secret@h/x?https=true", "the parameter 'https'"},
      {"postgres://ann:100%zzsecret@h/x", "write %, /, ?, @ of a password as %25, %2F, %3F, %40"},
      {"postgres://ann:secret@[::1]x/y", "accepted before the path: [USER:PASSWORD@]HOST[:PORT]"},
      {"postgres://ann:secret@[::1/y", "accepted before the path"},
      {"postgres://ann:secret", "accepted before the path"},
      {"postgres://ann:p@h,b:secret/x", "accepted before the path"},
      {"postgres://ann:pa/secret@h/x", "'@' is once there, before the host"},
      {"postgres://ann:pa@secret@h/x", "'@' is once there"},
      {"postgres://ann:p?secret@h/x", "'@' is once there"},
      {"postgres://ann:1?a=secret@h/x", "'@' is once there"},
      {"qdrant://:ab/secret@h/c", "'@' is once there"},
      {"qdrant://:secret%@h/c", "'%' is followed by two hexadecimal digits"},
      {"file:", "without a path"},
      {"file://host/x", "accepted: file:PATH"},
  };
  for (const auto& [text, message] : table) {
    try {
      (void)parse_store_url(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << text;
      EXPECT_THAT(error.message(), HasSubstr(message)) << text;
      EXPECT_THAT(error.message(), Not(HasSubstr("secret"))) << text;
    }
  }
  EXPECT_FALSE(is_store_url("out.npy"));
}

}  // namespace
}  // namespace gpux::vector_store
