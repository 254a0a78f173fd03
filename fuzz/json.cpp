// JSON read into a declared type, which the first two characters say. What is written of it reads back the same.
#include <string>

#include "declared.h"
#include "fuzzer.h"
#include "tensor/json_reader.h"
#include "tensor/json_writer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const ValueType type = take_type(input);
  const Value value = read_json_value(input, type, "x");
  std::string text;
  append_json(text, value, NonFinite::string);
  const Value again = must_succeed("reading what was written", [&] { return read_json_value(text, type, "x"); });
  require(same(value, again), "the JSON written reads back as another value");
}
