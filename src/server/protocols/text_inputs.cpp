#include "server/protocols/text_inputs.h"

#include <bit>
#include <span>

#include <fmt/format.h>

#include "base/base64.h"
#include "server/protocols/request_json.h"
#include "server/requests/request_work.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors go out as they lie in memory");

TokenIds read_ids(const RequestJson& list, const std::string& place) {
  if (list.size() > max_text_tokens) {
    refuse_member(place, fmt::format("has {} tokens; accepted: at most {}", list.size(), max_text_tokens));
  }
  TokenIds ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto id = whole_number(list[i]);
    if (!id || *id > UINT32_MAX) refuse_member(fmt::format("{}[{}]", place, i), "is no token's number");
    ids.push_back(static_cast<std::uint32_t>(*id));
  }
  if (ids.empty()) refuse_member(place, "is empty");
  return ids;
}

bool holds_numbers(const RequestJson& list) {
  return list.is_array() && !list.empty() && list.front().is_number();
}

}  // namespace

std::vector<TextInput> read_text_inputs(const RequestJson& value, const std::string& place) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse_member(place, "is neither a text nor a list");
  if (holds_numbers(value)) return {read_ids(value, place)};
  check_count(value.size(), place);
  std::vector<TextInput> inputs;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", place, i);
    if (value[i].is_string()) {
      inputs.emplace_back(value[i].get<std::string>());
    } else if (holds_numbers(value[i])) {
      inputs.emplace_back(read_ids(value[i], here));
    } else {
      refuse_member(here, "is neither a text nor a list of tokens' numbers");
    }
  }
  return inputs;
}

void append_vector(std::string& out, const std::vector<float>& vector, bool base64) {
  if (base64) {
    out += '"';
    out += to_base64(std::as_bytes(std::span(vector)));
    out += '"';
    return;
  }
  append_json(out, Tensor::of<float>({static_cast<std::int64_t>(vector.size())}, vector));
}

}  // namespace gpux::server
