#include "text/csv.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::text {
namespace {

using Records = std::vector<std::vector<std::string>>;
using Lines = std::vector<std::string>;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

using File = std::unique_ptr<std::FILE, Closer>;

File file_of(std::string text) {
  File file(std::tmpfile());
  std::fwrite(text.data(), 1, text.size(), file.get());
  EXPECT_EQ(std::fseek(file.get(), 0, SEEK_SET), 0);
  return file;
}

TEST(Csv, IsReadAsTheStandardSays) {
  struct {
    const char* name;
    std::string text;
    Records records;
    Lines places = {};
  } const cases[]{
      {"empty", "", {}},
      {"one field", "a", {{"a"}}},
      {"ends of lines", "a,b\r\nc,d\ne,f", {{"a", "b"}, {"c", "d"}, {"e", "f"}}, {"t:1", "t:2", "t:3"}},
      {"empty fields", ",\n,,\n", {{"", ""}, {"", "", ""}}},
      {"blanks count", " a , b \n", {{" a ", " b "}}},
      {"quotes", "\"a\",\"b, c\",\"\"\n", {{"a", "b, c", ""}}},
      {"doubled quotes", "\"say \"\"a\"\"\",\"\"\"\"\n", {{"say \"a\"", "\""}}},
      {"line breaks", "\"a\nb\r\nc\",d\ne,f\n", {{"a\nb\r\nc", "d"}, {"e", "f"}}, {"t:1", "t:4"}},
      {"blank lines", "\na\n\n\r\nb\n\n", {{"a"}, {"b"}}, {"t:2", "t:5"}},
      {"an empty field in quotes is a record", "a\n\"\"\n\"\"", {{"a"}, {""}, {""}}},
      {"a carriage return of its own", "a\rb,c\r", {{"a\rb", "c\r"}}},
      {"a byte order mark",
       "\xef\xbb\xbf"
       "a,b\n",
       {{"a", "b"}}},
      {"a byte order mark and quotes", "\xef\xbb\xbf\"a\",b\n", {{"a", "b"}}},
      {"a byte order mark that is text",
       "\xef\xbb\xbf\xef\xbb\xbf"
       "a,\xef\xbb\xbf\n",
       {{"\xef\xbb\xbf"
         "a",
         "\xef\xbb\xbf"}}},
      {"a byte order mark that is text in quotes", "\"\xef\xbb\xbf\"\n", {{"\xef\xbb\xbf"}}},
      {"bytes as they are", "\x01\x7f,\xc3\xa9\n", {{"\x01\x7f", "\xc3\xa9"}}},
  };

  for (const auto& each : cases) {
    const File file = file_of(each.text);
    CsvReader reader(file.get(), "t");
    Records records;
    Lines places;
    for (std::vector<std::string> fields; reader.next(fields);) {
      records.push_back(fields);
      places.push_back(reader.place());
    }
    EXPECT_EQ(records, each.records) << each.name;
    EXPECT_EQ(reader.bytes(), each.text.size()) << each.name;
    if (each.places.empty()) continue;
    EXPECT_EQ(places, each.places) << each.name;
  }
}

TEST(Csv, IsRefusedWithItsLine) {
  struct {
    const char* text;
    const char* message;
  } const cases[]{
      {"a\n\"b", "t:2: a quote opens here and is not closed"},
      {"a\n\"b\nc\nd", "t:2: a quote opens here and is not closed"},
      {"a\n\"b\"c\n", "t:2: a closing quote is followed by text"},
      {"a\n\"b\nc\" ,d\n", "t:3: a closing quote is followed by text"},
      {"a\nb\"c\"\n", "t:2: a quote stands within a field"},
      {"a\n \"c\"\n", "t:2: a quote stands within a field"},
  };

  for (const auto& each : cases) {
    const File file = file_of(each.text);
    CsvReader reader(file.get(), "t");
    std::vector<std::string> fields;
    EXPECT_TRUE(reader.next(fields));
    try {
      while (reader.next(fields)) {
      }
      ADD_FAILURE() << each.text << " is read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), testing::StartsWith(each.message));
    }
  }
}

TEST(Csv, IsUtf8) {
  using namespace std::string_literals;

  struct {
    std::string text;
    const char* message;
  } const cases[]{
      {"a,b\nc,caf\xe9\n", "t:2: not UTF-8 at byte offset 9 (0xe9); accepted: UTF-8"},
      {"a,b\nc,\"caf\xe9\"\n", "t:2: not UTF-8 at byte offset 10 (0xe9); accepted: UTF-8"},
      {"a\n\"b\nc\xe9t\xe9\"\n", "t:3: not UTF-8 at byte offset 6 (0xe9); accepted: UTF-8"},
      {"a\nb\xc3", "t:2: not UTF-8 at byte offset 3 (0xc3); accepted: UTF-8"},
      {"a\rb\xe9\n", "t:1: not UTF-8 at byte offset 3 (0xe9); accepted: UTF-8"},
      {"\xff\xfe"
       "a\0,\0b\0\n\0"s,
       "t:1: UTF-16 (little-endian) by its byte order mark; accepted: UTF-8"},
      {"\xfe\xff\0a\0,\0b\0\n"s, "t:1: UTF-16 (big-endian) by its byte order mark; accepted: UTF-8"},
      {"\xff\xfe"s, "t:1: UTF-16 (little-endian) by its byte order mark; accepted: UTF-8"},
      {"a\0,\0b\0\n\0"s,
       "t:1: a NUL character at byte offset 1, as in UTF-16 (little-endian) without a byte order mark; accepted: "
       "UTF-8"},
      {"\0a\0,\0b\0\n"s,
       "t:1: a NUL character at byte offset 0, as in UTF-16 (big-endian) without a byte order mark; accepted: UTF-8"},
      {"a\nb\0"s, "t:2: a NUL character at byte offset 3; accepted: UTF-8"},
  };

  for (const auto& each : cases) {
    const File file = file_of(each.text);
    CsvReader reader(file.get(), "t");
    std::vector<std::string> fields;
    try {
      while (reader.next(fields)) {
      }
      ADD_FAILURE() << each.text << " is read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_EQ(error.message(), each.message);
    }
  }
  // Read ahead behind the carriage return.
  const File file = file_of("a\r\xc3\xa9,b\n");
  CsvReader reader(file.get(), "t");
  std::vector<std::string> fields;
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (std::vector<std::string>{"a\r\xc3\xa9", "b"}));
}

}  // namespace
}  // namespace gpux::text
