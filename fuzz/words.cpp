// Single words: sizes, durations, types, names, and the messages of ONNX Runtime.
#include <string>

#include "base/memory_size.h"
#include "base/utf8.h"
#include "fuzzer.h"
#include "onnx/text.h"
#include "ort/message.h"
#include "project/declared_type.h"
#include "project/project_check.h"
#include "store/package_manifest.h"
#include "store/reference.h"
#include "tensor/json_text.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  constexpr std::uint64_t max_readable = 999'000'000'000'000;  // beyond, units follow that people write only
  if (const auto bytes = parse_memory_size(input); bytes && *bytes <= max_readable) {
    require(parse_memory_size(format_bytes(*bytes)).has_value(), "a size written is none");
  }
  if (const auto time = duration_from(input)) require(time->count() > 0, "a duration of nothing");
  if (const auto number = integer_from(input)) {
    require(integer_from(std::to_string(*number)) == number, "an integer written is another");
  }
  static_cast<void>(boolean_from(input));
  if (const auto type = value_type_from(input)) require(!to_string(*type).empty(), "a type unsaid");
  if (is_inside_package(input)) require(!input.starts_with("../"), "outside the package");
  require(is_utf8(onnx::to_utf8(input)), "not UTF-8");
  require(is_utf8(onnx::quote(input)), "a quote that is not UTF-8");
  require(json_excerpt(input).size() <= 40, "a long excerpt");
  require(ort::readable_message(input).find('\n') == std::string::npos, "a message of several lines");
  const Reference reference = parse_reference(input);
  require(parse_reference(reference.text()) == reference, "a name written is another");
}
