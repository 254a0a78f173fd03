#include "ort/declared_tensor.h"

#include <gtest/gtest.h>

namespace gpux::ort {
namespace {

DeclaredTensor floats(std::vector<DeclaredSize> sizes) {
  return {.type = ElementType::float32, .sizes = std::move(sizes)};
}

TEST(ExpectedShape, IsThatOfTheDeclarationAndTheInputs) {
  const DeclaredTensor rows = floats({{-1, "n"}, {-1, "m"}}), others = floats({{-1, "n"}, {8, ""}});
  const Shape of_rows{3, 5}, of_others{3, 8}, of_more{4, 8}, of_one{7};

  struct Case {
    const char* name;
    DeclaredTensor output;
    std::vector<GivenShape> inputs;
    std::optional<Shape> expected;
  };

  for (const Case& row : std::vector<Case>{
           {"numbers", floats({{2, ""}, {3, ""}}), {}, Shape{2, 3}},
           {"names", floats({{-1, "m"}, {-1, "n"}, {4, ""}}), {{&rows, &of_rows}}, Shape{5, 3, 4}},
           {"a name of two inputs", floats({{-1, "n"}}), {{&rows, &of_rows}, {&others, &of_others}}, Shape{3}},
           {"that differ", floats({{-1, "n"}}), {{&rows, &of_rows}, {&others, &of_more}}, std::nullopt},
           {"that differ elsewhere", floats({{-1, "m"}}), {{&rows, &of_rows}, {&others, &of_more}}, Shape{5}},
           {"a name of no input", floats({{-1, "k"}}), {{&rows, &of_rows}}, std::nullopt},
           {"no name", floats({{-1, ""}}), {{&rows, &of_rows}}, std::nullopt},
           {"an input of another rank", floats({{-1, "n"}}), {{&rows, &of_one}}, std::nullopt},
           {"a scalar, or no rank", floats({}), {}, std::nullopt},
           {"no tensor", {}, {}, std::nullopt},
           {"no elements", floats({{0, ""}, {-1, "n"}}), {{&rows, &of_rows}}, Shape{0, 3}},
       }) {
    EXPECT_EQ(expected_shape(row.output, row.inputs), row.expected) << row.name;
  }
}

}  // namespace
}  // namespace gpux::ort
