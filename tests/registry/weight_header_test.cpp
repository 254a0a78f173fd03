#include "registry/hub/weight_header.h"

#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "checkpoint/safetensors.h"
#include "registry/raw_server.h"

namespace gpux::registry {
namespace {

using test::http_answer;
using test::RawServer;
using ::testing::HasSubstr;

/// The beginning of a file: the size of the header, and a header of that size at least.
std::string header_of(std::size_t least_bytes) {
  std::string json = R"({"x":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]}})";
  if (json.size() < least_bytes) json.append(least_bytes - json.size(), ' ');
  const std::uint64_t bytes = json.size();
  std::string size(sizeof(bytes), '\0');
  std::memcpy(size.data(), &bytes, sizeof(bytes));
  return size + json;
}

// Answers with the bytes of the requested range.
std::string part_of(const std::string& file, const std::string& request) {
  constexpr std::string_view key = "Range: bytes=";
  const std::size_t at = request.find(key);
  if (at == std::string::npos) return http_answer(200, file);
  std::size_t digits = 0;
  const std::string range = request.substr(at + key.size());
  const std::size_t first = std::stoul(range, &digits);
  const std::size_t last = std::stoul(range.substr(digits + 1));
  return http_answer(206, file.substr(first, last + 1 - first),
                     fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, file.size()));
}

RemoteWeights weights_at(const RawServer& server, std::uint64_t bytes) {
  return {.name = "model.safetensors",
          .url = server.url("/file"),
          .authorization = {},
          .bytes = bytes,
          .error_of = [](const Response& response) {
            return Error(ErrorCode::not_found, fmt::format("status {}", response.status));
          }};
}

TEST(WeightHeader, IsFetchedInOneOrTwoParts) {
  for (const auto& [least_bytes, requests] : {std::pair<std::size_t, std::size_t>{0, 1}, {100'000, 2}}) {
    const std::string header = header_of(least_bytes), file = header + std::string(200'000, 'x');
    const RawServer server([&](const std::string& request) { return part_of(file, request); });
    Client client;
    EXPECT_EQ(fetch_weight_header(client, weights_at(server, file.size())), header);
    EXPECT_EQ(server.requests().size(), requests);
  }
}

TEST(WeightHeader, IsNotFetchedFromAServerWithoutParts) {
  const std::string file = header_of(0) + std::string(200'000, 'x');
  const RawServer server([&](const std::string&) { return http_answer(200, file); });
  Client client;
  EXPECT_EQ(fetch_weight_header(client, weights_at(server, file.size())), std::nullopt);
}

TEST(WeightHeader, TheBeginningOfAnyFileIsFetched) {
  const std::string file(1000, 'x');
  const RawServer server([&](const std::string& request) { return part_of(file, request); });
  const RawServer without([&](const std::string&) { return http_answer(200, file); });
  Client client;
  EXPECT_EQ(fetch_beginning(client, weights_at(server, file.size()), 100), file.substr(0, 100));
  EXPECT_EQ(fetch_beginning(client, weights_at(server, file.size()), 5000), file);
  EXPECT_EQ(fetch_beginning(client, weights_at(without, file.size()), 100), std::nullopt);
}

TEST(WeightHeader, RefusesWithTheReason) {
  struct Row {
    std::string answer;
    std::uint64_t bytes;
    ErrorCode code;
    std::string message;
  };

  const std::string other(1000, 'x');
  const std::string large_size("\0\0\0\x10\0\0\0\0", 8);  // 256 MiB
  for (const Row& row : std::vector<Row>{
           {http_answer(404, ""), 1000, ErrorCode::not_found, "status 404"},
           {http_answer(206, other), other.size(), ErrorCode::network, "is no safetensors file: its header has"},
           {http_answer(206, large_size + other), large_size.size() + other.size(), ErrorCode::network,
            "268435456 bytes"},
           {http_answer(206, "short"), 1000, ErrorCode::network, "5 bytes came instead of 1000"},
           {http_answer(206, other + other), 1000, ErrorCode::network, "1000"},
           {http_answer(206, ""), 4, ErrorCode::network, "it has 4 bytes"},
       }) {
    const RawServer server([&](const std::string&) { return row.answer; });
    Client client;
    try {
      (void)fetch_weight_header(client, weights_at(server, row.bytes));
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), row.code) << error.message();
      EXPECT_THAT(error.message(), HasSubstr(row.message));
    }
  }
}

TEST(WeightHeader, MakesAFileWhoseTensorsAreKnown) {
  const ScratchFolder scratch;
  const std::string header = header_of(0);
  write_header_file(scratch.path() / "model.safetensors", header, header.size() + 12);
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "model.safetensors"), header.size() + 12);
  const checkpoint::Safetensors weights(scratch.path() / "model.safetensors");
  EXPECT_EQ(weights.shape("x"), (Shape{3, 2}));
  EXPECT_EQ(weights.float32_bytes(), 6 * sizeof(float));
}

}  // namespace
}  // namespace gpux::registry
