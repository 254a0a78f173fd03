// Downloads in pieces: what is recorded, resumed and refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "registry/download/downloader.h"
#include "registry/download/range_set.h"
#include "registry/raw_server.h"

namespace gpux::registry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RangeSet, JoinsAndTellsWhatIsMissing) {
  RangeSet set;
  set.add({10, 20});
  set.add({30, 40});
  set.add({5, 5});
  EXPECT_THAT(set.spans(), ElementsAre(Span{10, 20}, Span{30, 40}));
  set.add({20, 25});
  set.add({28, 35});
  EXPECT_THAT(set.spans(), ElementsAre(Span{10, 25}, Span{28, 40}));
  EXPECT_THAT(set.missing(50), ElementsAre(Span{0, 10}, Span{25, 28}, Span{40, 50}));
  EXPECT_THAT(set.missing(30), ElementsAre(Span{0, 10}, Span{25, 28}));
  set.add({0, 100});
  EXPECT_THAT(set.spans(), ElementsAre(Span{0, 100}));
  EXPECT_EQ(set.total(), 100U);
  EXPECT_THAT(set.missing(50), ElementsAre());
}

TEST(DownloadRecord, ReadsBackOrIsNone) {
  DownloadRecord record{.bytes = 100, .etag = "abc", .ranges = {}};
  record.ranges.add({0, 10});
  record.ranges.add({50, 100});
  const std::string text = encode(record);
  const auto read = decode_download_record(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->etag, "abc");
  EXPECT_EQ(read->ranges.spans(), record.ranges.spans());
  // Cut anywhere, it is none: what was downloaded is not guessed.
  for (std::size_t size = 0; size + 1 < text.size(); ++size) EXPECT_FALSE(decode_download_record(text.substr(0, size)));
  for (const char* wrong : {"gpux download 1\n10\n\n0 11\nend\n", "gpux download 1\n10\n\n5 5\nend\n",
                            "gpux download 1\nx\n\nend\n", "gpux download 2\n10\n\nend\n"}) {
    EXPECT_FALSE(decode_download_record(wrong)) << wrong;
  }
}

TEST(CutInPieces, KeepsTheOrder) {
  EXPECT_THAT(cut_in_pieces({{0, 25}, {30, 35}}, 10),
              ElementsAre(Span{0, 10}, Span{10, 20}, Span{20, 25}, Span{30, 35}));
  EXPECT_THAT(cut_in_pieces({}, 10), ElementsAre());
}

std::string content_of(std::size_t bytes) {
  std::string content;
  for (std::size_t i = 0; i < bytes; ++i) content += static_cast<char>('a' + i * 7 % 23);
  return content;
}

/// Answers ranges of the content; `allowed` bytes of each answer are sent.
std::string range_answer(const std::string& request, const std::string& content, std::size_t allowed) {
  const std::size_t at = request.find("Range: bytes=");
  if (at == std::string::npos) return test::http_answer(200, content).substr(0, 80 + allowed);
  std::size_t dash = 0;
  const std::string range = request.substr(at + 13);
  const std::size_t first = std::stoul(range, &dash), last = std::stoul(range.substr(dash + 1));
  const std::string part = content.substr(first, last - first + 1);
  const std::string answer =
      test::http_answer(206, part, fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, content.size()));
  return answer.substr(0, answer.find("\r\n\r\n") + 4 + allowed);
}

DownloadItem item_of(const std::string& url, const std::string& content) {
  return {.name = "file",
          .url = url,
          .authorization = {},
          .headers = {},
          .key = "key",
          .bytes = content.size(),
          .etag = {},
          .has_ranges = true,
          .problem_of =
              [digest = sha256_of(content)](const std::filesystem::path& file) {
                return sha256_of_file(file) == digest ? std::string() : std::string("it differs");
              },
          .error_of = {},
          .on_answer = {}};
}

constexpr RetryPolicy quick{.max_attempts = 4, .first_delay = std::chrono::milliseconds(1)};

TEST(Download, ResumesWhereItWasCut) {
  const ScratchFolder folder;
  const std::string content = content_of(100'000);
  const test::RawServer server([&](const std::string& request) { return range_answer(request, content, 9'000); });
  Client client;
  std::uint64_t last = 0;
  const DownloadItem item = item_of(server.url("/"), content);
  const DownloadResult result = download(
      client, folder.path(), std::span(&item, 1),
      {.connections = 3, .piece_bytes = 30'000, .retry = quick, .on_progress = [&](const DownloadProgress& progress) {
         last = progress.done;
       }});
  EXPECT_EQ(read_file(result.files.front()), content);
  EXPECT_EQ(result.received_bytes, content.size());
  EXPECT_EQ(last, content.size());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "key.ranges"));
}

TEST(Download, KeepsWhatItHasForTheNextCall) {
  const ScratchFolder folder;
  const std::string content = content_of(50'000);
  std::atomic<bool> is_broken = true;
  const test::RawServer server([&](const std::string& request) {
    if (is_broken && request.find("bytes=20000") != std::string::npos) return test::http_answer(403, "");
    return range_answer(request, content, content.size());
  });
  Client client;
  const DownloadItem item = item_of(server.url("/"), content);
  const DownloadOptions options{.connections = 1, .piece_bytes = 10'000, .retry = quick, .on_progress = {}};
  EXPECT_THROW(download(client, folder.path(), std::span(&item, 1), options), Error);
  is_broken = false;
  const DownloadResult result = download(client, folder.path(), std::span(&item, 1), options);
  EXPECT_EQ(read_file(result.files.front()), content);
  EXPECT_EQ(result.resumed_bytes, 20'000U);
  EXPECT_EQ(result.received_bytes, 30'000U);
  // What is complete is not asked for again.
  const std::size_t count = server.requests().size();
  EXPECT_EQ(download(client, folder.path(), std::span(&item, 1), options).received_bytes, 0U);
  EXPECT_EQ(server.requests().size(), count);
}

// Otherwise parts of two versions would become one file.
TEST(Download, RequiresTheStrongEtagOfTheWholeWithEachPart) {
  const std::string content = content_of(5'000);
  for (const auto& [header, message] :
       std::vector<std::pair<std::string, std::string>>{{"ETag: \"one\"\r\n", ""},
                                                        {"ETag: W/\"one\"\r\n", "without the ETag of the whole"},
                                                        {"", "without the ETag of the whole"},
                                                        {"ETag: \"two\"\r\n", "has changed on the server"}}) {
    const ScratchFolder folder;
    const test::RawServer server([&, &tag = header](const std::string& request) {
      std::string answer = range_answer(request, content, content.size());
      return answer.insert(answer.find("\r\n") + 2, tag);
    });
    Client client;
    DownloadItem item = item_of(server.url("/"), content);
    item.etag = "one";
    std::string refusal;
    try {
      (void)download(client, folder.path(), std::span(&item, 1),
                     {.connections = 1, .piece_bytes = 2'000, .retry = quick, .on_progress = {}});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network);
      refusal = error.message();
    }
    EXPECT_THAT(refusal, message.empty() ? testing::Matcher<std::string>(testing::IsEmpty())
                                         : testing::Matcher<std::string>(HasSubstr(message)));
  }
}

TEST(Download, RefusesAnotherSizeOrContent) {
  const ScratchFolder folder;
  const std::string content = content_of(5'000), other = content_of(6'000), wrong(5'000, 'x');
  for (const std::string& sent : {other, wrong}) {
    const test::RawServer server([&](const std::string& request) { return range_answer(request, sent, sent.size()); });
    Client client;
    const DownloadItem item = item_of(server.url("/"), content);
    try {
      (void)download(client, folder.path(), std::span(&item, 1),
                     {.connections = 2, .piece_bytes = 2'000, .retry = quick, .on_progress = {}});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::network);
      EXPECT_THAT(error.message(),
                  HasSubstr(sent.size() == 6'000 ? "6000 bytes on the server instead of 5000" : "it differs"));
    }
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "key"));
  }
}

// Each attempt begins at the first byte, and is cut at the same one: that is no progress.
TEST(Download, WithoutRangesOrProgressIsGivenUp) {
  const ScratchFolder folder;
  const std::string content = content_of(50'000);
  const test::RawServer server([&](const std::string&) { return test::http_answer(200, content).substr(0, 20'000); });
  for (const bool has_size : {true, false}) {
    Client client;
    DownloadItem item = item_of(server.url("/"), content);
    item.has_ranges = false;
    if (!has_size) item.bytes.reset();
    const std::size_t before = server.requests().size();
    EXPECT_THROW(download(client, folder.path(), std::span(&item, 1), {.connections = 1, .retry = quick}), Error);
    EXPECT_LE(server.requests().size() - before, 2U * quick.max_attempts);
  }
}

TEST(Download, WaitsForAnotherAndSaysSo) {
  const ScratchFolder folder;
  const std::string content = content_of(1000);
  const test::RawServer server([&](const std::string& request) { return range_answer(request, content, 1000); });
  const DownloadItem item = item_of(server.url("/"), content);
  std::optional<FileLock> held = FileLock::try_exclusive(folder.path() / "key.lock");
  std::vector<std::string> notes;
  DownloadOptions options{.connections = 1, .retry = quick};
  options.on_note = [&](const std::string& note) {
    notes.push_back(note);
    held.reset();
  };
  Client client;
  EXPECT_EQ(read_file(download(client, folder.path(), std::span(&item, 1), options).files.front()), content);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("another pull downloads 'file'")));
}

TEST(Download, CanBeCancelledWhileItWaits) {
  const ScratchFolder folder;
  const FileLock held(folder.path() / "key.lock", FileLock::Mode::exclusive);
  const DownloadItem item = item_of("http://127.0.0.1:1/", "content");
  std::stop_source stop;
  Client client({.cancellation = Cancellation(stop.get_token())});
  DownloadOptions options;
  options.on_note = [&](const std::string&) { stop.request_stop(); };
  try {
    (void)download(client, folder.path(), std::span(&item, 1), options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

}  // namespace
}  // namespace gpux::registry
