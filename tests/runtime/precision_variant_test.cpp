#include "runtime/loading/precision_variant.h"

#include <gtest/gtest.h>

namespace gpux::runtime {
namespace {

TEST(UnmeasuredConversion, IsReportedWhereTheProviderConverts) {
  EXPECT_EQ(unmeasured_conversion("tensorrt", "fp16", "fp32", "fp16"),
            "tensorrt converts the model to fp16 itself, and the difference is not measured: 'gpux verify MODEL "
            "--provider tensorrt --precision fp16' measures it");
  EXPECT_EQ(unmeasured_conversion("tensorrt", "fp16", "fp16", "fp16"), "");  // the model is in fp16
  EXPECT_EQ(unmeasured_conversion("tensorrt", "fp32", "fp32", "fp32"), "");
  EXPECT_EQ(unmeasured_conversion("qnn", "", "fp32", "fp16"), "");       // its default
  EXPECT_EQ(unmeasured_conversion("cuda", "fp16", "fp32", "tf32"), "");  // refused elsewhere
  EXPECT_EQ(unmeasured_conversion("encoder", "bf16", "fp32", "bf16"), "");
}

}  // namespace
}  // namespace gpux::runtime
