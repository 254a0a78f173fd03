#include "provider/shape_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"
#include "provider/options.h"
#include "provider/table.h"

namespace gpux::provider {
namespace {

using testing::HasSubstr;

TEST(ShapeProfile, IsOneToThreeShapesOfEachInput) {
  const std::vector<ShapeRange> ranges =
      parse_shape_profile("input_ids:1x1..8x128..32x512, a/b:0:2x3..4x3,image:1x3x224x224");
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[1].input, "a/b:0");
  EXPECT_EQ(shapes_text(ranges, &ShapeRange::smallest), "input_ids:1x1,a/b:0:2x3,image:1x3x224x224");
  EXPECT_EQ(shapes_text(ranges, &ShapeRange::tuned), "input_ids:8x128,a/b:0:4x3,image:1x3x224x224");
  EXPECT_EQ(shapes_text(ranges, &ShapeRange::largest), "input_ids:32x512,a/b:0:4x3,image:1x3x224x224");
}

TEST(ShapeProfile, OfAnotherFormIsRefusedWithWhatIsWrong) {
  struct Case {
    const char* text;
    const char* words;
  };

  const Case cases[] = {
      {"", "names no input"},
      {"1x2", "names no input"},
      {":1x2", "names no input"},
      {"x:", "'' is no shape"},
      {"x:1x", "'1x' is no shape"},
      {"x:0x2", "'0x2' is no shape"},
      {"x:-1x2", "'-1x2' is no shape"},
      {"x:1x99999999999999999999", "is no shape"},
      {"x:1..2..3..4", "more than three shapes"},
      {"x:1..1x2", "differ in their dimensions"},
      {"x:1x8..2x4", "fall in a dimension"},
      {"x:1..4..2", "fall in a dimension"},
      {"x:1,x:2", "'x' is given twice"},
  };
  for (const Case& one : cases) {
    try {
      (void)parse_shape_profile(one.text);
      ADD_FAILURE() << one.text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr(one.words)) << one.text;
    }
  }
}

TEST(ShapeProfile, BecomesTheProvidersOwnOptions) {
  const OptionList given{{"shapes", "x:1x2..3x4..5x6"}};
  const ResolvedOptions tensorrt = resolve_options(*find_row("tensorrt"), given, {}, false);
  EXPECT_EQ(tensorrt.passed, (OptionList{{"trt_profile_min_shapes", "x:1x2"},
                                         {"trt_profile_opt_shapes", "x:3x4"},
                                         {"trt_profile_max_shapes", "x:5x6"}}));
  const ResolvedOptions rtx = resolve_options(*find_row("tensorrt-rtx"), given, {}, true);
  EXPECT_THAT(rtx.passed, testing::Contains(std::pair<std::string, std::string>("nv_profile_max_shapes", "x:5x6")));
  try {
    (void)resolve_options(*find_row("cuda"), given, {}, false);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("option 'shapes' has no counterpart there"));
  }
}

}  // namespace
}  // namespace gpux::provider
