#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vector_store/postgres/copy_rows.h"
#include "vector_store/postgres/server_error.h"
#include "vector_store/postgres/statements.h"

namespace gpux::vector_store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Postgres, NamesAreQuoted) {
  EXPECT_EQ(quoted_identifier("items"), "\"items\"");
  EXPECT_EQ(quoted_identifier("x\"; DROP TABLE y; --"), "\"x\"\"; DROP TABLE y; --\"");
  CollectionFacts facts{.dimension = 3};
  EXPECT_EQ(create_index("a\"b", facts),
            "CREATE INDEX IF NOT EXISTS \"a\"\"b_hnsw\" ON \"a\"\"b\" USING hnsw (embedding vector_cosine_ops)");
  facts.dimension = 2001;
  EXPECT_EQ(create_index("a", facts), "");
}

TEST(Postgres, VectorsAreTexts) {
  EXPECT_EQ(vector_text(std::vector<float>{0.1F, -2, 1e-20F}), "[0.1,-2,1e-20]");
  EXPECT_EQ(sparse_text({{0, 9}, {0.5F, 2}}, 10), "{1:0.5,10:2}/10");
  EXPECT_EQ(sparse_text({}, 10), "{}/10");
}

TEST(Postgres, SearchesHaveTheirValuesAsParameters) {
  SearchRequest request{.vector = {1, 2}, .count = 7, .filter = {parse_condition("a=b'c")}};
  const SearchStatement dense = search_statement("t", {.dimension = 2, .distance = Similarity::dot}, request);
  EXPECT_EQ(dense.text,
            "SELECT id, -(embedding <#> $1::vector), text, payload FROM \"t\" WHERE (payload @> $2::jsonb OR "
            "payload @> $3::jsonb) ORDER BY embedding <#> $1::vector LIMIT 7");
  EXPECT_THAT(dense.parameters, ElementsAre("[1,2]", R"({"a":"b'c"})", R"({"a":["b'c"]})"));
  request = {.sparse = {{1}, {2}}, .count = 1};
  const SearchStatement sparse = search_statement("t", {.dimension = 2, .sparse_dimension = 5}, request);
  EXPECT_EQ(
      sparse.text,
      "SELECT id, -(sparse <#> $1::sparsevec), text, payload FROM \"t\" ORDER BY sparse <#> $1::sparsevec LIMIT 1");
  EXPECT_THAT(sparse.parameters, ElementsAre("{2:2}/5"));
}

TEST(Postgres, AnExactSearchUsesNoIndex) {
  EXPECT_THAT(search_settings({.count = 10, .is_exact = true}), ElementsAre("SET LOCAL enable_indexscan = off"));
  EXPECT_THAT(search_settings({.count = 1001}), ElementsAre("SET LOCAL enable_indexscan = off"));
  EXPECT_THAT(search_settings({.count = 300}),
              ElementsAre("SET LOCAL hnsw.ef_search = 300", "SET LOCAL hnsw.iterative_scan = strict_order"));
}

TEST(CopyRows, AreAsTheDocumentationHasThem) {
  CopyRows rows;
  rows.begin_row(4);
  rows.add_text("id");
  rows.add_vector(std::vector<float>{1, -2});
  rows.add_sparse({{3}, {1}}, 10);
  rows.add_jsonb("{}");
  const std::string expected = std::string("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19) + std::string("\0\4", 2) +
                               std::string("\0\0\0\2id", 6) +
                               std::string("\0\0\0\14\0\2\0\0\x3f\x80\0\0\xc0\0\0\0", 16) +
                               std::string("\0\0\0\24\0\0\0\12\0\0\0\1\0\0\0\0\0\0\0\3\x3f\x80\0\0", 24) +
                               std::string("\0\0\0\3\1{}", 7) + std::string("\xff\xff", 2);
  EXPECT_EQ(rows.finish(), expected);
}

TEST(PostgresError, IsOneLineWithTheCodeOfItsState) {
  const std::tuple<const char*, const char*, ErrorCode> table[]{
      {"42501", "permission denied for table x", ErrorCode::permission},
      {"53100", "could not extend file: No space left on device", ErrorCode::storage},
      {"53300", "too many clients", ErrorCode::resource_exhausted},
      {"57P01", "terminating connection due to administrator command", ErrorCode::network},
      {"25006", "cannot execute INSERT in a read-only transaction", ErrorCode::permission},
      {"22023", "expected 3 dimensions, not 2", ErrorCode::invalid_input},
      {"", "server closed the connection unexpectedly\n\tThis probably means", ErrorCode::network},
      {"", "", ErrorCode::network},
  };
  for (const auto& [state, message, code] : table) {
    const Error error = server_error(state, message, "postgres://h/d");
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << message;
    EXPECT_THAT(error.message(), HasSubstr("'postgres://h/d': ")) << message;
  }
}

TEST(PostgresError, OfAConnectionSaysWhatToDo) {
  EXPECT_EQ(
      connection_error("connection to server at \"h\" failed: Connection refused\n\tIs it running", false, "x").code(),
      ErrorCode::network);
  EXPECT_EQ(connection_error("FATAL:  password authentication failed for user \"a\"\n", false, "x").code(),
            ErrorCode::permission);
  EXPECT_EQ(connection_error("FATAL:  database \"d\" does not exist", false, "x").code(), ErrorCode::not_found);
  const Error asked = connection_error("fe_sendauth: no password supplied\n", true, "x");
  EXPECT_EQ(asked.code(), ErrorCode::permission);
  EXPECT_THAT(asked.message(), HasSubstr("PGPASSWORD"));
}

}  // namespace
}  // namespace gpux::vector_store
