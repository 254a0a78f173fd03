#include "provider/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"

namespace gpux::provider {
namespace {

constexpr std::uint16_t nvidia = 0x10de, amd = 0x1002, intel = 0x8086;

Hardware with(std::uint16_t vendor) {
  return {.accelerators = {{.address = "0000:01:00.0", .vendor_id = vendor, .device_id = 1, .class_code = 0x030000}}};
}

ProviderReport report_of(const std::string& id, const Hardware& hardware,
                         const std::vector<ort::CoreFile>& cores = {}) {
  const std::vector<std::string> ids{id};
  return survey(ids, cores, {}, hardware).front();
}

// What is not installed is worth installing only where the hardware for it is.
TEST(Survey, TellsHardwareThatIsNotHereFromSoftwareThatIsNotInstalled) {
  struct Case {
    const char* id;
    Hardware hardware;
    bool is_here;
  };

  const Case cases[] = {
      {"cuda", {}, false},
      {"cuda", with(amd), false},
      {"cuda", with(intel), false},
      {"cuda", with(nvidia), true},
      {"cuda", {.has_nvidia_file = true}, true},
      {"tensorrt", {}, false},
      {"tensorrt", with(nvidia), true},
      {"migraphx", {}, false},
      {"migraphx", with(nvidia), false},
      {"migraphx", {.has_nvidia_file = true}, false},
      {"migraphx", with(amd), true},
      // It works on any processor, too.
      {"openvino", {}, true},
  };
  for (const Case& one : cases) {
    const ProviderReport report = report_of(one.id, one.hardware);
    EXPECT_FALSE(report.available) << one.id;
    EXPECT_EQ(report.reason == "not installed", one.is_here) << one.id << ": " << report.reason;
    EXPECT_EQ(report.remedy.empty(), !one.is_here) << one.id << ": " << report.remedy;
    EXPECT_THAT(report.reason, testing::MatchesRegex("not installed|no .* on this machine")) << one.id;
  }
}

TEST(Survey, ComparesVersionsByTheirNumbers) {
  EXPECT_TRUE(is_older("1.24.4", "1.24.10"));
  EXPECT_FALSE(is_older("1.24.10", "1.24.4"));
  EXPECT_TRUE(is_older("1.9.0", "1.24.1"));
  EXPECT_FALSE(is_older("2.0", "1.24.1"));
  EXPECT_FALSE(is_older("1.24.1", "1.24.1"));
  EXPECT_TRUE(is_older("1.24", "1.24.1"));
  EXPECT_FALSE(is_older("1.24.1", "1.24"));
}

TEST(Survey, DoesNotOfferABridgeWithoutItsHardware) {
  const test::TemporaryFolder folder;
  const ort::CoreFile core{.library = folder.write("libonnxruntime.so.1", ""), .bridges = {"cuda"}};
  const ProviderReport report = report_of("cuda", {}, {core});
  EXPECT_FALSE(report.available);
  EXPECT_EQ(report.reason, "no NVIDIA GPU on this machine");
  EXPECT_NE(report_of("cuda", with(nvidia), {core}).reason, report.reason);
}

}  // namespace
}  // namespace gpux::provider
