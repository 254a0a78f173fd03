#include "tensor/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "tensor/json_text.h"
#include "tensor/packed.h"
#include "tensor/small_float.h"

namespace gpux {
namespace {

template <typename Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
  out.append(text.data(), written.ptr);
}

template <typename Float>
void append_float(std::string& out, Float number, NonFinite nonfinite) {
  if (std::isfinite(number)) [[likely]] {
    append_number(out, number);
  } else if (nonfinite == NonFinite::null) {
    out += "null";
  } else {
    out += std::isnan(number) ? R"("NaN")" : number > 0 ? R"("Infinity")" : R"("-Infinity")";
  }
}

// As the float32 that it is exactly. The shortest decimal of the type itself is another number to who reads it as
// anything else: 0.1 for the float16 0.09997559, 6e4 for the float8 57344.
void append_small_float(std::string& out, ElementType type, std::uint16_t bits, NonFinite nonfinite) {
  append_float(out, static_cast<float>(small_float_value(type, bits)), nonfinite);
}

// Lists of the shape `sizes` around what append_innermost(row) writes, row counting from 0.
template <typename AppendInnermost>
void append_lists(std::string& out, std::span<const std::int64_t> sizes, const AppendInnermost& append_innermost) {
  std::vector<std::int64_t> indices(sizes.size(), 0);
  out.append(sizes.size(), '[');
  for (std::int64_t row = 0;; ++row) {
    append_innermost(row);
    std::size_t ended = 0;
    while (ended < sizes.size() && ++indices[sizes.size() - 1 - ended] == sizes[sizes.size() - 1 - ended]) {
      indices[sizes.size() - 1 - ended] = 0;
      ++ended;
    }
    out.append(ended, ']');
    if (ended == sizes.size()) return;
    out += ',';
    out.append(ended, '[');
  }
}

void append_empty_lists(std::string& out, std::span<const std::int64_t> shape) {
  constexpr std::int64_t max_lists = 1 << 24;
  const auto first_empty = std::find(shape.begin(), shape.end(), 0);
  const std::span<const std::int64_t> sizes = shape.first(static_cast<std::size_t>(first_empty - shape.begin()));
  if (element_count(sizes) > max_lists) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("shape {} has no elements but {} empty lists in JSON, more than {}", to_string(shape),
                            element_count(sizes), max_lists));
  }
  append_lists(out, sizes, [&](std::int64_t) { out += "[]"; });
}

// append_element(i) writes element i.
template <typename AppendElement>
void append_elements(std::string& out, std::span<const std::int64_t> shape, std::int64_t count,
                     const AppendElement& append_element) {
  constexpr std::int64_t usual_length = 9;
  out.reserve(out.size() + static_cast<std::size_t>(count * usual_length));
  if (shape.empty()) {
    append_element(0);
  } else if (count == 0) {
    append_empty_lists(out, shape);
  } else {
    const std::int64_t row_length = shape.back();
    append_lists(out, shape.first(shape.size() - 1), [&](std::int64_t row) {
      out += '[';
      for (std::int64_t i = row * row_length; i < (row + 1) * row_length; ++i) {
        append_element(static_cast<std::size_t>(i));
        out += ',';
      }
      out.back() = ']';
    });
  }
}

void append_tensor(std::string& out, const Tensor& tensor, std::span<const std::int64_t> shape, std::size_t first,
                   NonFinite nonfinite) {
  const std::int64_t count = element_count(shape);
  const auto append = [&](const auto& append_element) {
    append_elements(out, shape, count, [&](std::size_t i) { append_element(first + i); });
  };
  const auto append_numbers = [&](auto elements) { append([&](std::size_t i) { append_number(out, elements[i]); }); };
  const auto append_floats = [&](auto elements) {
    append([&](std::size_t i) { append_float(out, elements[i], nonfinite); });
  };
  const std::span<const std::byte> bytes = tensor.bytes();
  const ElementType type = tensor.type();
  const std::size_t bits = bits_of(type);
  switch (type) {
    case ElementType::float32:
      return append_floats(tensor.as<float>());
    case ElementType::float64:
      return append_floats(tensor.as<double>());
    case ElementType::int8:
      return append_numbers(tensor.as<std::int8_t>());
    case ElementType::int16:
      return append_numbers(tensor.as<std::int16_t>());
    case ElementType::int32:
      return append_numbers(tensor.as<std::int32_t>());
    case ElementType::int64:
      return append_numbers(tensor.as<std::int64_t>());
    case ElementType::uint8:
      return append_numbers(tensor.as<std::uint8_t>());
    case ElementType::uint16:
      return append_numbers(tensor.as<std::uint16_t>());
    case ElementType::uint32:
      return append_numbers(tensor.as<std::uint32_t>());
    case ElementType::uint64:
      return append_numbers(tensor.as<std::uint64_t>());
    case ElementType::int4:
    case ElementType::int2:
      return append([&](std::size_t i) { append_number(out, sign_extended(packed_element(bytes, i, bits), bits)); });
    case ElementType::uint4:
    case ElementType::uint2:
      return append([&](std::size_t i) { append_number(out, packed_element(bytes, i, bits)); });
    case ElementType::boolean:
      return append([&](std::size_t i) { out += bytes[i] == std::byte{0} ? "false" : "true"; });
    case ElementType::string:
      return append([&](std::size_t i) { append_json_string(out, tensor.strings()[i]); });
    case ElementType::float16:
      return append([&](std::size_t i) { append_small_float(out, type, tensor.as<Float16>()[i].bits, nonfinite); });
    case ElementType::bfloat16:
      return append([&](std::size_t i) { append_small_float(out, type, tensor.as<BFloat16>()[i].bits, nonfinite); });
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1:
      return append([&](std::size_t i) { append_small_float(out, type, packed_element(bytes, i, bits), nonfinite); });
    case ElementType::complex64:
    case ElementType::complex128:
    case ElementType::undefined:
      break;
  }
  throw Error(ErrorCode::invalid_input, fmt::format("{} tensors have no JSON form", to_string(type)));
}

void append_key(std::string& out, const Tensor& keys, std::size_t index) {
  if (keys.type() == ElementType::string) {
    append_json_string(out, keys.strings()[index]);
  } else if (keys.type() == ElementType::int64) {
    out += '"';
    append_number(out, keys.as<std::int64_t>()[index]);
    out += '"';
  } else {
    throw Error(ErrorCode::invalid_input,
                fmt::format("maps with keys of {} have no JSON form", to_string(keys.type())));
  }
}

void append_map(std::string& out, const Map& map, NonFinite nonfinite) {
  const auto count = static_cast<std::size_t>(map.keys.element_count());
  const Shape& shape = map.values.shape();
  if (shape.empty() || shape.front() != map.keys.element_count()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("a map of {} keys has values of shape {}", count, to_string(shape)));
  }
  const std::span<const std::int64_t> value_shape = std::span(shape).subspan(1);
  const auto value_elements = static_cast<std::size_t>(element_count(value_shape));
  out += '{';
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    append_key(out, map.keys, i);
    out += ':';
    append_tensor(out, map.values, value_shape, i * value_elements, nonfinite);
  }
  out += '}';
}

void append_value(std::string& out, const Value& value, NonFinite nonfinite, std::size_t depth) {
  if (depth > json_depth_limit) {
    throw Error(ErrorCode::invalid_input, fmt::format("sequences nest deeper than {}", json_depth_limit));
  }
  if (const Tensor* tensor = value.tensor()) {
    append_tensor(out, *tensor, tensor->shape(), 0, nonfinite);
  } else if (const Sequence* sequence = value.sequence()) {
    out += '[';
    for (std::size_t i = 0; i < sequence->values.size(); ++i) {
      if (i != 0) out += ',';
      append_value(out, sequence->values[i], nonfinite, depth + 1);
    }
    out += ']';
  } else if (const Map* map = value.map()) {
    append_map(out, *map, nonfinite);
  } else {
    out += "null";
  }
}

void append_escaped(std::string& out, char character) {
  switch (character) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(character));
  }
}

bool stands_for_itself(char character) noexcept {
  const auto byte = static_cast<unsigned char>(character);
  return byte >= 0x20 && byte < 0x7f && character != '"' && character != '\\';
}

}  // namespace

void append_json(std::string& out, const Value& value, NonFinite nonfinite) {
  append_value(out, value, nonfinite, 0);
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  out += '"';
  while (!text.empty()) {
    const auto special = std::find_if_not(text.begin(), text.end(), stands_for_itself);
    const auto plain = static_cast<std::size_t>(special - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = utf8_character(text);
    if (length > 1) {
      out += text.substr(0, length);
    } else if (length == 1) {
      append_escaped(out, text.front());
    } else {
      out += replacement;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

}  // namespace gpux
