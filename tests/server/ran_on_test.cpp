// Tests the short form of a verdict that each answer has.
#include "server/models/ran_on.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

ProviderAttempt holding(const char* id, std::size_t nodes) {
  ProviderAttempt attempt;
  attempt.id = id;
  attempt.outcome = ProviderAttempt::Outcome::active;
  attempt.node_count = nodes;
  return attempt;
}

Verdict verdict_of(std::vector<ProviderAttempt> attempts, const char* precision) {
  Verdict verdict;
  for (const ProviderAttempt& one : attempts) verdict.active.push_back(one.id);
  verdict.tried = std::move(attempts);
  verdict.precision = precision;
  verdict.placement_known = true;
  return verdict;
}

constexpr const char* digest = "6fdcf7d363676fab8b2ed65c314ecd43";

TEST(RanOn, NamesProvidersPrecisionAndModel) {
  const RanOn one = ran_on(verdict_of({holding("encoder", 194)}, "fp32"), digest);
  EXPECT_EQ(one.header, R"(encoder;nodes=194;precision=fp32;model="6fdcf7d36367")");
  EXPECT_EQ(one.fingerprint, "fp_6fdcf7d36367_encoder_fp32");

  const RanOn two = ran_on(verdict_of({holding("cuda", 7), holding("cpu", 2)}, "tf32"), digest);
  EXPECT_EQ(two.header, R"(cuda;nodes=7;precision=tf32;model="6fdcf7d36367", cpu;nodes=2)");
  EXPECT_EQ(two.fingerprint, "fp_6fdcf7d36367_cuda+cpu_tf32");
}

TEST(RanOn, LeavesOutWhatIsNotKnown) {
  Verdict verdict = verdict_of({holding("webgpu", 0)}, "");
  verdict.placement_known = false;
  EXPECT_EQ(ran_on(verdict, "").header, "webgpu");
  EXPECT_EQ(ran_on(verdict, "").fingerprint, "fp__webgpu");
  EXPECT_EQ(ran_on({}, digest).header, "") << "results that were computed while the model was loaded";
}

TEST(RanOn, NamesTheProvidersOfBothTowers) {
  const std::string header = ran_on(verdict_of({holding("encoder", 194)}, "fp32"), "").header;
  EXPECT_EQ(header_of_towers(header, verdict_of({holding("cuda", 7), holding("cpu", 2)}, "fp32")),
            "encoder;nodes=194;precision=fp32, cuda;tower=image, cpu;tower=image");
  EXPECT_EQ(header_of_towers("", verdict_of({holding("cpu", 2)}, "fp32")), "cpu;tower=image");
}

// Names of a user's own libraries end in a header field.
TEST(RanOn, HasTokensForAnyName) {
  const RanOn odd = ran_on(verdict_of({holding("9, a\r\nSet-Cookie: b;é", 1)}, "int8"), digest);
  EXPECT_EQ(odd.header, R"(x9__a__Set-Cookie__b___;nodes=1;precision=int8;model="6fdcf7d36367")");
}

}  // namespace
}  // namespace gpux::server
