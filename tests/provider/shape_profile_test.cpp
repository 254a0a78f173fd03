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

TEST(ShapeProfile, IsABoundedShapeToOpenVino) {
  const OptionList given{{"shapes", "x:1x3..2x3..4x3,y:1..1..1"}};
  const ResolvedOptions bridge = resolve_options(*find_row("openvino"), given, {}, false);
  EXPECT_EQ(bridge.passed, (OptionList{{"reshape_input", "x[1..4,3],y[1]"}}));
  ASSERT_EQ(bridge.shapes.size(), 2U);
  EXPECT_EQ(bridge.shapes[0].largest, (std::vector<std::int64_t>{4, 3}));
  EXPECT_FALSE(takes_shapes(*find_row("openvino"), true));
  EXPECT_THROW((void)resolve_options(*find_row("openvino"), given, {}, true), Error);
}

// Those that were derived give way to the user's, and are nothing to a provider that does not take them.
TEST(ShapeProfile, ThatIsDerivedGivesWay) {
  const CommonOptions derived{.shapes = "x:1x2..3x4..5x6"};
  EXPECT_EQ(profile_text(resolve_options(*find_row("tensorrt"), {}, derived, false).shapes), "x:1x2..3x4..5x6");
  const OptionList given{{"shapes", "x:7x8"}};
  EXPECT_EQ(profile_text(resolve_options(*find_row("tensorrt"), given, derived, false).shapes), "x:7x8..7x8..7x8");
  const ResolvedOptions cuda = resolve_options(*find_row("cuda"), {}, derived, false);
  EXPECT_TRUE(cuda.passed.empty());
  EXPECT_TRUE(cuda.unenforced.empty());
}

TEST(ShapeProfile, IsReadFromTheProvidersOwnOptions) {
  struct Case {
    OptionList options;
    const char* profile;
  };

  const Case cases[] = {
      {{{"trt_profile_min_shapes", "x:1x3,a:b:2"},
        {"trt_profile_opt_shapes", "x:2x3,a:b:2"},
        {"trt_profile_max_shapes", "x:4x3,a:b:2"}},
       "x:1x3..2x3..4x3,a:b:2..2..2"},
      {{{"nv_profile_min_shapes", "x:1"}, {"nv_profile_opt_shapes", "x:2"}, {"nv_profile_max_shapes", "x:4"}},
       "x:1..2..4"},
      // What is not whole is the provider's to complain of.
      {{{"trt_profile_min_shapes", "x:1"}, {"trt_profile_max_shapes", "x:4"}}, ""},
      {{{"trt_profile_min_shapes", "x"}, {"trt_profile_opt_shapes", "x"}, {"trt_profile_max_shapes", "x"}}, ""},
      // Several profiles of one input.
      {{{"trt_profile_min_shapes", "x:1,x:8"},
        {"trt_profile_opt_shapes", "x:2,x:9"},
        {"trt_profile_max_shapes", "x:4,x:16"}},
       ""},
      {{{"reshape_input", "x[1..4,3],y[2]"}}, "x:1x3..4x3..4x3,y:2..2..2"},
      {{{"reshape_input", "x[..4,?]"}}, "x:1x1..4x2147483647..4x2147483647"},
      {{{"reshape_input", "x[1..4"}}, ""},
      {{{"reshape_input", "x[a]"}}, ""},
      {{{"trt_fp16_enable", "1"}}, ""},
      {{}, ""},
  };
  for (const Case& one : cases) EXPECT_EQ(profile_text(ranges_of_options(one.options)), one.profile);
}

SignatureEntry entry(const std::string& name, std::vector<Dimension> dimensions, bool required = true) {
  ValueType type;
  type.element = ElementType::float32;
  type.dimensions = std::move(dimensions);
  return {.name = name, .type = type, .required = required, .description = {}};
}

ExpectedSize size(const std::string& input, std::size_t dimension, std::int64_t smallest, std::int64_t tuned,
                  std::int64_t largest, const std::string& from) {
  return {
      .input = input, .dimension = dimension, .smallest = smallest, .tuned = tuned, .largest = largest, .from = from};
}

TEST(DerivedProfile, IsOfAllFreeDimensionsOrOfNone) {
  const Dimension batch{{}, "batch"}, three{3, ""}, free{{}, ""};
  SignatureEntry unknown_rank = entry("x", {});
  unknown_rank.type.dimensions.reset();
  SignatureEntry sequence = entry("x", {});
  sequence.type.kind = ValueKind::sequence;

  struct Case {
    const char* what;
    std::vector<SignatureEntry> inputs;
    std::vector<ExpectedSize> sizes;
    const char* profile;
    const char* from;
    const char* unknown;
  };

  const Case cases[] = {
      {"fixed", {entry("x", {three})}, {}, "", "", ""},
      {"all known", {entry("x", {batch, three})}, {size("x", 0, 1, 4, 8, "a file")}, "x:1x3..4x3..8x3", "a file", ""},
      {"inputs that are fixed have none",
       {entry("x", {batch, three}), entry("y", {three})},
       {size("x", 0, 1, 4, 8, "a file")},
       "x:1x3..4x3..8x3",
       "a file",
       ""},
      {"several sources",
       {entry("x", {batch, free})},
       {size("x", 0, 1, 4, 8, "a file"), size("x", 1, 2, 2, 2, "images")},
       "x:1x2..4x2..8x2",
       "a file, images",
       ""},
      {"one is missing",
       {entry("x", {batch, three}), entry("y", {batch, free})},
       {size("x", 0, 1, 4, 8, "a file"), size("y", 0, 1, 4, 8, "a file")},
       "",
       "",
       "nothing says how large dimension 1 of input 'y' becomes"},
      {"named", {entry("x", {batch})}, {}, "", "", "nothing says how large dimension 0 (batch) of input 'x' becomes"},
      {"left open for a reason", {entry("x", {batch})}, {size("x", 0, 1, 1, 0, "it is long")}, "", "", "it is long"},
      {"constants are no inputs", {entry("x", {three}), entry("w", {free}, false)}, {}, "", "", ""},
      {"no rank", {unknown_rank}, {}, "", "", "the number of dimensions of input 'x' is not known"},
      {"no tensor", {sequence}, {}, "", "", ""},
      {"a name with a comma",
       {entry("x,y", {batch})},
       {size("x,y", 0, 1, 1, 1, "a file")},
       "",
       "",
       "the name of input 'x,y' cannot be part of the option"},
  };
  for (const Case& one : cases) {
    Signature signature;
    signature.inputs = one.inputs;
    const DerivedProfile derived = derive_shape_profile(signature, one.sizes);
    EXPECT_EQ(profile_text(derived.ranges), one.profile) << one.what;
    EXPECT_EQ(derived.from, one.from) << one.what;
    EXPECT_EQ(derived.unknown, one.unknown) << one.what;
  }
}

TEST(ShapeProfile, SaysWhatIsOutsideOfIt) {
  const std::vector<ShapeRange> ranges = parse_shape_profile("x:1x3..2x3..4x3,y:2");
  EXPECT_EQ(outside_of_profile(ranges, "x", {1, 3}), "");
  EXPECT_EQ(outside_of_profile(ranges, "x", {4, 3}), "");
  EXPECT_EQ(outside_of_profile(ranges, "x", {5, 3}), "input 'x' is 5x3, and the model was compiled for 1x3 to 4x3");
  EXPECT_NE(outside_of_profile(ranges, "x", {0, 3}), "");
  EXPECT_NE(outside_of_profile(ranges, "x", {3}), "");
  EXPECT_NE(outside_of_profile(ranges, "y", {1}), "");
  EXPECT_EQ(outside_of_profile(ranges, "z", {9}), "");
  EXPECT_EQ(max_rows_of(ranges), 2);
  EXPECT_EQ(max_rows_of({}), 0);
  EXPECT_EQ(max_rows_of(ranges_of_options(OptionList{{"reshape_input", "x[?,3]"}})), 0);
}

ProviderAttempt active(const std::string& id, const std::string& kind, const std::string& shapes = {}) {
  ProviderAttempt attempt;
  attempt.id = id;
  attempt.outcome = ProviderAttempt::Outcome::active;
  if (!kind.empty()) attempt.devices = {Device{.kind = kind, .name = {}, .vendor = {}}};
  attempt.shapes = shapes;
  return attempt;
}

TEST(ShapeProfile, IsThatOfTheActiveProvider) {
  Verdict verdict;
  verdict.tried = {active("tensorrt", "gpu", "x:1..2..4"), active("cpu", "cpu")};
  verdict.active = {"tensorrt", "cpu"};
  EXPECT_EQ(active_profile(verdict).provider, "tensorrt");
  EXPECT_EQ(profile_text(active_profile(verdict).ranges), "x:1..2..4");
  verdict.active = {"cpu"};
  EXPECT_TRUE(active_profile(verdict).ranges.empty());
  verdict = {};
  verdict.tried = {active("tensorrt", "gpu", "x:?")};
  verdict.active = {"tensorrt"};
  EXPECT_TRUE(active_profile(verdict).ranges.empty()) << "what is not understood refuses nothing";
}

TEST(CompilesEachSize, IsOfProvidersWithoutAProfile) {
  struct Case {
    const char* id;
    const char* kind;
    const char* shapes;
    bool compiles;
  };

  const Case cases[] = {{"tensorrt", "gpu", "", true},     {"tensorrt", "gpu", "x:1..2..4", false},
                        {"tensorrt-rtx", "gpu", "", true}, {"migraphx", "gpu", "", true},
                        {"coreml", "gpu", "", true},       {"coreml", "", "", true},
                        {"qnn", "npu", "", true},          {"openvino", "gpu", "", true},
                        {"openvino", "npu", "", true},     {"openvino", "cpu", "", false},
                        {"cuda", "gpu", "", false},        {"webgpu", "gpu", "", false},
                        {"encoder", "cpu", "", false},     {"cpu", "cpu", "", false},
                        {"somebodys", "gpu", "", false}};
  for (const Case& one : cases) {
    Verdict verdict;
    verdict.tried = {active(one.id, one.kind, one.shapes)};
    verdict.active = {one.id};
    EXPECT_EQ(compiles_each_size(verdict), one.compiles ? one.id : "") << one.id << " " << one.kind;
  }
  EXPECT_EQ(compiles_each_size({}), "");
}

}  // namespace
}  // namespace gpux::provider
