#include "server/jobs/text_figures.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(TextFigures, AreHeadersInWholeMilliseconds) {
  http::Response response;
  const TextFigures figures{.texts = 3,
                            .characters = 40,
                            .tokens = 12,
                            .tokenization = microseconds(8999),
                            .queue = microseconds(3000),
                            .inference = microseconds(90'000)};
  add_text_headers(response, figures, "npu", std::chrono::steady_clock::now() - std::chrono::hours(1));
  EXPECT_EQ(response.headers["X-Compute-Type"], "npu");
  EXPECT_EQ(response.headers["X-Compute-Characters"], "40");
  EXPECT_EQ(response.headers["X-Compute-Tokens"], "12");
  EXPECT_EQ(response.headers["X-Tokenization-Time"], "2");
  EXPECT_EQ(response.headers["X-Queue-Time"], "1");
  EXPECT_EQ(response.headers["X-Inference-Time"], "30");
  EXPECT_GE(std::stoul(std::string(response.headers["X-Total-Time"])), 3'600'000U);
  EXPECT_EQ(response.headers["X-Compute-Time"], response.headers["X-Total-Time"]);
  EXPECT_EQ(response.headers.size(), 8U);
}

TEST(TextFigures, NameTheDeviceThatHoldsMostNodes) {
  struct Case {
    std::vector<std::string> active;
    std::vector<std::string> devices;  // of the first
    std::string device_type;
    std::string type;
  };

  for (const Case& one :
       {Case{{}, {}, "", "cpu"}, Case{{"cpu"}, {"cpu"}, "", "cpu"}, Case{{"cuda", "cpu"}, {"gpu"}, "", "gpu"},
        Case{{"cpu", "cuda"}, {"cpu"}, "", "cpu"}, Case{{"cuda"}, {}, "", "gpu"},
        Case{{"openvino"}, {"cpu"}, "", "cpu"}, Case{{"openvino"}, {"cpu", "gpu", "npu"}, "GPU.1", "gpu"},
        Case{{"openvino"}, {"gpu", "npu"}, "NPU", "npu"}, Case{{"encoder"}, {}, "", "cpu"},
        Case{{"qnn"}, {}, "", "npu"}}) {
    SCOPED_TRACE(testing::PrintToString(one.active) + one.device_type);
    Verdict verdict;
    verdict.active = one.active;
    verdict.tried.push_back(
        {.id = "cuda-first", .ort_name = {}, .reason = {}, .remedy = {}, .devices = {}, .options = {}});
    if (!one.active.empty()) {
      ProviderAttempt& provider = verdict.tried.emplace_back();
      provider.id = one.active.front();
      for (const std::string& kind : one.devices) {
        provider.devices.push_back({.kind = kind, .name = {}, .vendor = {}, .index = 0});
      }
      if (!one.device_type.empty()) provider.options = {{"device_type", one.device_type}};
    }
    EXPECT_EQ(compute_type_of(verdict), one.type);
  }
}

TEST(TextFigures, CountCodePoints) {
  EXPECT_EQ(count_characters(""), 0U);
  EXPECT_EQ(count_characters("abc"), 3U);
  EXPECT_EQ(count_characters("h\u00e9llo \u4e16\u754c \U0001F600"), 10U);
}

}  // namespace
}  // namespace gpux::server
