// The parts that need no socket.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "server/http/body.h"
#include "server/http/busy_poll.h"
#include "server/http/chunked.h"
#include "server/http/content_coding.h"
#include "server/http/form.h"
#include "server/http/request_parser.h"
#include "server/http/transfer_pace.h"
#include "server/raw_client.h"

namespace gpux::http {
namespace {

using testing::ElementsAre;

TEST(HttpParts, AMadeBodyIsLaidOutLikeOneThatArrived) {
  for (const std::size_t aligned_at : {0U, 1U, 17U, 64U, 100U}) {
    const Piece body = make_body("some text", aligned_at);
    EXPECT_EQ(body.text(), "some text");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(body.bytes.data() + aligned_at) % body_alignment, 0U);
    for (std::size_t index = 0; index < body_padding; ++index) EXPECT_EQ(body.bytes.data()[9 + index], std::byte{0});
  }
  EXPECT_TRUE(make_body("").bytes.empty());
}

TEST(HttpParts, BusyPollingGoesOnWhileItPaysOff) {
  using std::chrono::microseconds;
  server::BusyPoll poll(microseconds(50));
  // The outcome is what a look would come to; it counts only where there is one.
  const auto looks = [&](int times, bool pays_off) {
    int count = 0;
    for (int i = 0; i < times; ++i) {
      if (poll.time().count() == 0) continue;
      ++count;
      poll.learn(pays_off);
    }
    return count;
  };
  EXPECT_LE(looks(1000, false), 32);
  EXPECT_GE(looks(1000, true), 900);
  EXPECT_LE(looks(1000, false), 40);
  EXPECT_GE(looks(1000, true), 900);

  server::BusyPoll off(microseconds(0));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(off.time(), microseconds(0));
}

TEST(HttpParts, PercentDecoding) {
  EXPECT_EQ(percent_decoded("a%20b+c"), "a b+c");
  EXPECT_EQ(percent_decoded("a%20b+c", true), "a b c");
  EXPECT_EQ(percent_decoded("%e4%bd%A0"), "\xe4\xbd\xa0");
  for (const char* wrong : {"%", "%1", "%g0", "%0", "a%", "%00", "%0a", "%ff", "%c0%80", "%ed%a0%80"}) {
    EXPECT_EQ(percent_decoded(wrong), std::nullopt) << wrong;
  }
}

TEST(HttpParts, SegmentsOfAPath) {
  Request request;
  const auto segments_of = [&](const char* target) {
    request.target = target;
    return request.segments();
  };
  EXPECT_THAT(segments_of("/"), ElementsAre());
  EXPECT_THAT(segments_of("/a"), ElementsAre("a"));
  EXPECT_THAT(segments_of("/a/"), ElementsAre("a"));
  EXPECT_THAT(segments_of("/a//b?c/d"), ElementsAre("a", "", "b"));
  EXPECT_THAT(segments_of("/a%2fb/%20"), ElementsAre("a/b", " "));
}

TEST(HttpParts, ChunksMayBeCutAnywhere) {
  const std::string text = "4\r\nWiki\r\n6;x=y\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\nnext";
  for (std::size_t portion = 1; portion <= text.size(); ++portion) {
    ChunkedDecoder decoder(100);
    std::string body;
    std::size_t at = 0;
    std::string_view rest;
    while (!decoder.ended() && at < text.size()) {
      rest = std::string_view(text).substr(at, portion);
      const std::size_t before = rest.size();
      while (!rest.empty() && !decoder.ended()) body += decoder.next(rest);
      at += before - rest.size();
    }
    EXPECT_EQ(body, "Wikipedia in \r\n\r\nchunks.") << portion;
    EXPECT_EQ(text.substr(at), "next") << portion;
  }
}

TEST(HttpParts, AHeaderMayBeCutAnywhere) {
  const std::string text = "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-Long: 1,\r\n 2\r\n\r\nabc";
  for (std::size_t portion = 1; portion <= text.size(); ++portion) {
    RequestParser parser(1000);
    Request request;
    parser.begin(request);
    std::string pending;
    std::size_t at = 0;
    auto outcome = RequestParser::Outcome::more;
    while (outcome == RequestParser::Outcome::more && at < text.size()) {
      pending += text.substr(at, portion);
      at = std::min(at + portion, text.size());
      std::size_t consumed = 0;
      outcome = parser.feed(pending, consumed);
      pending.erase(0, consumed);
    }
    EXPECT_EQ(outcome, RequestParser::Outcome::complete) << portion;
    EXPECT_EQ(request.path, "/a");
    EXPECT_EQ(request.headers["x-long"], "1, 2");
    EXPECT_EQ(parser.framing().content_length, 3U);
    EXPECT_EQ(pending + text.substr(at), "abc");
  }
}

TEST(HttpParts, ABudgetIsKeptToTheByte) {
  const auto budget = std::make_shared<MemoryBudget>(100);
  {
    BodyBuffer first(budget, 0, 1000);
    EXPECT_EQ(first.reserve(60), BodyBuffer::Outcome::taken);
    BodyBuffer second(budget, 0, 1000);
    EXPECT_EQ(second.reserve(41), BodyBuffer::Outcome::no_memory);
    EXPECT_EQ(second.reserve(40), BodyBuffer::Outcome::taken);
    EXPECT_EQ(budget->held_bytes(), 100U);
    EXPECT_EQ(second.reserve(std::uint64_t{1} << 62U), BodyBuffer::Outcome::too_large);
  }
  EXPECT_EQ(budget->held_bytes(), 0U);
}

TEST(HttpParts, ATransferEndsWhereItFallsBehind) {
  using std::chrono::milliseconds;
  const TransferPace::Clock::time_point start{};

  struct Progress {
    int at_ms;
    std::uint64_t bytes;
    int deadline_ms;
  };

  // 100 bytes per second, 1 second behind at most.
  const std::vector<std::vector<Progress>> transfers{
      {{0, 0, 1000}, {500, 0, 1000}},
      {{500, 10, 1100}, {1000, 10, 1200}},
      {{100, 1'000'000, 1100}, {200, 0, 1100}, {1000, 1, 1110}},
      {{900, 50, 1500}, {1400, 100, 2400}},
  };
  for (const auto& transfer : transfers) {
    TransferPace pace(start, milliseconds(1000), 100);
    for (const Progress& progress : transfer) {
      pace.add(start + milliseconds(progress.at_ms), progress.bytes);
      EXPECT_EQ(pace.deadline() - start, milliseconds(progress.deadline_ms)) << progress.at_ms;
    }
  }
  TransferPace pace(start, milliseconds(1000), 100);
  pace.add(start + milliseconds(100), 1000);
  EXPECT_EQ(pace.bytes_per_second(start + milliseconds(499)), std::nullopt);
  EXPECT_EQ(pace.bytes_per_second(start + milliseconds(500)), 2000);
  pace.add(start + milliseconds(500), 10);
  EXPECT_EQ(pace.bytes_per_second(start + milliseconds(600)), 2000);
  EXPECT_EQ(pace.bytes_per_second(start + milliseconds(1000)), 20);
}

TEST(HttpParts, DeflatingAndInflatingInAnyPortions) {
  std::string text;
  for (int index = 0; index < 20'000; ++index) text += std::to_string(index * index);
  Deflater deflater;
  deflater.add(std::as_bytes(std::span(text.data(), 1000)));
  deflater.add(std::as_bytes(std::span(text.data() + 1000, text.size() - 1000)));
  const std::string packed = deflater.finish();
  EXPECT_LT(packed.size(), text.size());
  for (const std::size_t in_portion : {1U, 100U, 1'000'000U}) {
    for (const std::size_t out_portion : {1U, 1000U}) {
      Inflater inflater(Framing::Coding::gzip);
      std::string unpacked;
      std::string_view rest = packed;
      std::vector<std::byte> out(out_portion);
      while (!inflater.ended()) {
        const auto in = rest.substr(0, in_portion);
        const auto step = inflater.step(std::as_bytes(std::span(in.data(), in.size())), out);
        ASSERT_FALSE(step.malformed);
        ASSERT_TRUE(step.consumed > 0 || step.produced > 0);
        rest.remove_prefix(step.consumed);
        unpacked.append(reinterpret_cast<const char*>(out.data()), step.produced);
      }
      EXPECT_EQ(unpacked, text);
    }
  }
}

TEST(HttpParts, FormsAreCutAtTheirBoundaries) {
  const std::string a = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";

  struct {
    const char* type;
    std::string body;
    std::vector<std::pair<std::string, std::string>> parts;
  } const forms[]{
      {"multipart/form-data; boundary=x", "--x\r\n" + a + "1\r\n--x--", {{"a", "1"}}},
      {"Multipart/Form-Data; charset=utf-8; BOUNDARY=\"x y\"", "--x y  \r\n" + a + "\r\n--x y--\r\n", {{"a", ""}}},
      {"multipart/form-data; boundary=x",
       "not looked at\r\n--x\r\nX-Other: 1\r\ncontent-disposition:form-data; filename=\"q;name=\\\"z\\\"\"; "
       "name=b\r\n\r\n"
       "line\r\n--y\r\n\r\n--x\r\n" +
           a + "2\r\n--x--\r\nnor this\r\n--x",
       {{"b", "line\r\n--y\r\n"}, {"a", "2"}}},
      {"multipart/form-data; boundary=x", "--x--", {}},
  };

  for (const auto& [type, body, parts] : forms) {
    EXPECT_TRUE(is_form(type));
    std::vector<std::pair<std::string, std::string>> found;
    for (const FormPart& part : read_form(body, type)) found.emplace_back(part.name, part.content);
    EXPECT_EQ(found, parts) << body;
  }
  EXPECT_FALSE(is_form("multipart/mixed; boundary=x"));
  EXPECT_FALSE(is_form(""));

  struct {
    std::string type, body;
    const char* says;
  } const refused[]{
      {"multipart/form-data", "--x--", "no boundary"},
      {"multipart/form-data; boundary=\"x", "--x--", "no boundary"},
      {"multipart/form-data; boundary=" + std::string(71, 'x'), "", "1 to 70"},
      {"multipart/form-data; boundary=x", "", "no boundary"},
      {"multipart/form-data; boundary=x", "--x", "end of its line"},
      {"multipart/form-data; boundary=x", "--xy\r\n", "end of its line"},
      {"multipart/form-data; boundary=x", "--x\r\n" + a + "1", "cut off"},
      {"multipart/form-data; boundary=x", "--x\r\n" + a + "1\r\n--x", "end of its line"},
      {"multipart/form-data; boundary=x", "--x\r\na: b\r\n--x--", "no blank line"},
      {"multipart/form-data; boundary=x", "--x\r\n\r\n1\r\n--x--", "no 'Content-Disposition"},
      {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--x--",
       "no 'Content-Disposition"},
      {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--x--",
       "no 'Content-Disposition"},
  };

  for (const auto& [type, body, says] : refused) {
    try {
      (void)read_form(body, type);
      ADD_FAILURE() << body;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.message(), testing::HasSubstr(says)) << body;
    }
  }
}

}  // namespace
}  // namespace gpux::http
