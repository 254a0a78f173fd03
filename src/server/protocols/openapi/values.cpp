#include "server/protocols/openapi/values.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tensor/integer_range.h"
#include "tensor/small_float.h"

namespace gpux::server::openapi {
namespace {

// What rounds to the type's largest finite value still fits: up to half a step beyond it. As JSON writes float32's and
// bfloat16's bounds, in the fewest digits, they lie just below the half and so belong to what fits; float16's is exact.
Json float_schema(ElementType type) {
  Json number{{"type", "number"}};
  const auto within = [&](double bound, const char* lowest, const char* highest) {
    number[lowest] = -bound;
    number[highest] = bound;
  };
  if (type == ElementType::float32) {
    within(std::numeric_limits<float>::max() + std::ldexp(1.0, 103), "minimum", "maximum");
  } else if (type == ElementType::bfloat16) {
    within(largest_finite(type) + std::ldexp(1.0, 119), "minimum", "maximum");
  } else if (type == ElementType::float16) {
    within(largest_finite(type) + 16, "exclusiveMinimum", "exclusiveMaximum");
  }
  return {{"anyOf", Json::array({std::move(number), {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}}})}};
}

Json element_schema(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return {{"enum", Json::array({true, false, 0, 1})}};
    case ElementType::string:
      return {{"type", "string"}};
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float32:
    case ElementType::float64:
      return float_schema(type);
    default:
      break;
  }
  if (const auto range = integer_range(type)) {
    return {{"type", "integer"}, {"minimum", range->lowest}, {"maximum", range->highest}};
  }
  return {{"type", "number"}};
}

}  // namespace

Json value_schema(const ValueType& type, bool is_answer) {
  if (type.kind != ValueKind::tensor) return {{"description", to_string(type)}};
  Json schema = element_schema(type.element);
  if (is_answer && schema.contains("anyOf")) schema = {{"type", Json::array({"number", "null"})}};
  if (is_answer && type.element == ElementType::boolean) schema = {{"type", "boolean"}};
  if (!type.dimensions) return {{"description", to_string(type)}};
  const std::vector<Dimension>& dimensions = *type.dimensions;
  for (std::size_t i = dimensions.size(); i-- > 0;) {
    schema = {{"type", "array"}, {"items", std::move(schema)}};
    const std::optional<std::int64_t>& size = dimensions[i].size;
    if (size && !is_answer) schema["minItems"] = schema["maxItems"] = *size;
  }
  // A text alone stands for a list of one.
  const bool may_be_alone = !is_answer && type.element == ElementType::string && dimensions.size() == 1 &&
                            dimensions.front().size.value_or(1) == 1;
  if (may_be_alone) return {{"anyOf", Json::array({{{"type", "string"}}, std::move(schema)})}};
  return schema;
}

}  // namespace gpux::server::openapi
