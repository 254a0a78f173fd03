// Tests when auto takes a provider of gpux's own in place of the CPU provider.
#include "provider/own_provider.h"

#include <limits>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::provider {
namespace {

using testing::HasSubstr;

const ComparedProvider agreeing{.provider = "decoder", .agreement = 0.99943, .samples = 8, .difference = {}};

OwnProviderFacts fitting() {
  return {.unavailable = {},
          .has_fast_kernels = true,
          .asked_precision = {},
          .model_precision = "fp32",
          .model_bytes = 1'000'000,
          .memory_bytes = 2'000'000};
}

TEST(OwnProvider, IsTakenWhereAllHolds) {
  EXPECT_EQ(reason_against(agreeing, fitting()), "");
  OwnProviderFacts facts = fitting();
  facts.asked_precision = "fp32";
  EXPECT_EQ(reason_against(agreeing, facts), "") << "the model's own precision by name";
}

TEST(OwnProvider, IsNotTakenWhereOneIsMissing) {
  struct Case {
    const char* reason;
    void (*change)(ComparedProvider&, OwnProviderFacts&);
  };

  constexpr Case cases[] = {
      {"it claims 3 of 4 nodes",
       [](ComparedProvider& one, OwnProviderFacts&) { one.difference = "it claims 3 of 4 nodes"; }},
      {"is 0.9989, below 0.999", [](ComparedProvider& one, OwnProviderFacts&) { one.agreement = 0.9989; }},
      {"is nan, below 0.999",
       [](ComparedProvider& one, OwnProviderFacts&) { one.agreement = std::numeric_limits<double>::quiet_NaN(); }},
      {"is 0.0000, below 0.999", [](ComparedProvider& one, OwnProviderFacts&) { one.agreement = 0; }},
      {"not here", [](ComparedProvider&, OwnProviderFacts& facts) { facts.unavailable = "not here"; }},
      {"without AVX2", [](ComparedProvider&, OwnProviderFacts& facts) { facts.has_fast_kernels = false; }},
      {"int8 is asked for", [](ComparedProvider&, OwnProviderFacts& facts) { facts.asked_precision = "int8"; }},
      {"weights of 1.0 MB are in memory twice",
       [](ComparedProvider&, OwnProviderFacts& facts) { facts.model_bytes += 1; }},
      {"there are 0 B", [](ComparedProvider&, OwnProviderFacts& facts) { facts.memory_bytes = 0; }},
      {"are in memory twice",
       [](ComparedProvider&, OwnProviderFacts& facts) { facts.model_bytes = std::uint64_t{1} << 63; }},
  };
  for (const Case& one : cases) {
    ComparedProvider compared = agreeing;
    OwnProviderFacts facts = fitting();
    one.change(compared, facts);
    EXPECT_THAT(reason_against(compared, facts), HasSubstr(one.reason));
  }
}

TEST(OwnProvider, IsNamedWithWhatShowsItsOutputs) {
  EXPECT_EQ(
      to_string(note_of(agreeing)),
      "decoder is gpux's own, and was compared with the CPU provider (least cosine 0.99943); provider cpu for ONNX "
      "Runtime's");
}

TEST(OwnProvider, IsAnnouncedWhereAModelIsPackaged) {
  const auto line = [](const std::optional<ComparedProvider>& compared) {
    Verdict verdict;
    note_packaged(compared, verdict);
    return verdict.notes.empty() ? std::string() : to_string(verdict.notes.front());
  };
  EXPECT_EQ(line(agreeing), "auto takes decoder once the package is loaded (least cosine 0.99943)");
  ComparedProvider other = agreeing;
  other.difference = "it claims 3 of 4 nodes";
  EXPECT_EQ(line(other), "auto does not take decoder: it claims 3 of 4 nodes");
  EXPECT_EQ(line(std::nullopt), "");
}

TEST(OwnProvider, IsOneOfTwo) {
  EXPECT_TRUE(is_own("encoder"));
  EXPECT_TRUE(is_own("decoder"));
  EXPECT_FALSE(is_own("openvino"));
}

}  // namespace
}  // namespace gpux::provider
