// JSON that is taken apart before its values are read: lines, objects, lists.
#include "base/utf8.h"
#include "fuzzer.h"
#include "tensor/json_envelope.h"

namespace gpux::fuzz {
namespace {

void split(std::string_view text) {
  if (is_object(text)) {
    for (const JsonInput& member : split_object(text)) {
      require(is_utf8(member.name), "a name that is not UTF-8");
      require(!member.raw.empty(), "a member without a value");
    }
  }
  if (is_array(text)) {
    for (const std::string_view element : split_array(text)) require(!element.empty(), "an empty element");
  }
}

}  // namespace

void read_hostile(std::string_view input) {
  for (const std::string_view line : split_lines(input)) {
    try {
      split(line);
    } catch (const Error&) {  // the next line may still be good
    }
  }
  split(input);
}

}  // namespace gpux::fuzz
