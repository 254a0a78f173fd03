#include "tensor/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "tensor/convert.h"
#include "tensor/json_text.h"
#include "tensor/packed.h"

namespace gpux {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read and written as they lie in memory");

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_dimensions = 64;

[[noreturn]] void refuse(std::string_view message) {
  throw Error(ErrorCode::invalid_input, fmt::format("npy: {}", message));
}

// NumPy's description of an element: '<f4' is little endian, kind f, 4 bytes ('U' counts characters of 4 bytes).
struct Description {
  bool big_endian = false;
  char kind = 0;
  std::size_t item_bytes = 0;
};

struct Header {
  Description description;
  bool fortran_order = false;
  Shape shape;
};

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t parse_size(std::string_view digits) {
  constexpr std::size_t max_digits = 18;
  if (digits.empty() || digits.size() > max_digits) refuse(fmt::format("{} is not a size", json_excerpt(digits)));
  std::size_t size = 0;
  for (const char digit : digits) {
    if (!is_json_digit(digit)) refuse(fmt::format("{} is not a size", json_excerpt(digits)));
    size = size * 10 + static_cast<std::size_t>(digit - '0');
  }
  return size;
}

Description description_from(std::string_view text) {
  constexpr std::size_t max_item_bytes = std::size_t{1} << 40;
  if (text.size() < 2) refuse(fmt::format("the element type {} is unknown", json_excerpt(text)));
  Description description;
  if (std::string_view("<>=|").find(text.front()) != std::string_view::npos) {
    description.big_endian = text.front() == '>';
    text.remove_prefix(1);
  }
  description.kind = text.front();
  text.remove_prefix(1);
  if (description.kind == 'O') refuse("arrays of Python objects are not read: save numbers or strings");
  if (description.kind == 'M' || description.kind == 'm') refuse("arrays of times are not read: save them as int64");
  description.item_bytes = parse_size(text);
  if (description.item_bytes > max_item_bytes) refuse("one element is larger than any file");
  if (description.kind == 'U') description.item_bytes *= 4;
  return description;
}

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : cursor_(text) {}

  Header parse() {
    Header header;
    bool has_description = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      cursor_.skip_blanks();
      if (key == "descr" && !has_description) {
        if (cursor_.peek() == '[') refuse("arrays of structures are not read: save each field by itself");
        header.description = description_from(quoted());
        has_description = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        refuse(
            fmt::format("the header's key {} is not one of descr, fortran_order, shape, once each", json_excerpt(key)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    cursor_.skip_blanks();
    if (!cursor_.done() || !has_description || !has_order || !has_shape) malformed();
    return header;
  }

 private:
  [[noreturn]] static void malformed() { refuse("the header is not {'descr': …, 'fortran_order': …, 'shape': …}"); }

  bool take(char character) {
    cursor_.skip_blanks();
    return cursor_.take(character);
  }

  void expect(char character) {
    if (!take(character)) malformed();
  }

  std::string_view quoted() {
    cursor_.skip_blanks();
    const char quote = cursor_.peek();
    if (quote != '\'' && quote != '"') malformed();
    ++cursor_.at;
    const std::size_t length = cursor_.rest().find(quote);
    if (length == std::string_view::npos) malformed();
    const std::string_view text = cursor_.rest().substr(0, length);
    cursor_.at += length + 1;
    return text;
  }

  bool boolean() {
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (cursor_.rest().starts_with(word)) {
        cursor_.at += word.size();
        return value;
      }
    }
    malformed();
  }

  Shape shape() {
    Shape shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == max_dimensions) refuse(fmt::format("more than {} dimensions", max_dimensions));
      const std::string_view rest = cursor_.rest();
      const std::string_view digits = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
      shape.push_back(static_cast<std::int64_t>(parse_size(digits)));
      cursor_.at += digits.size();
      cursor_.take('L');  // Python 2 wrote long integers so
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  JsonCursor cursor_;
};

struct File {
  Header header;
  std::span<const std::byte> data;
};

File open_npy(std::span<const std::byte> file) {
  constexpr std::size_t version_end = magic.size() + 2;
  if (!text_of(file).starts_with(magic) || file.size() < version_end) refuse("this is not a .npy file");
  const auto major = std::to_integer<unsigned>(file[magic.size()]);
  if (major < 1 || major > 3) refuse(fmt::format("format {} is unknown: 1, 2 and 3 are read", major));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (file.size() < version_end + length_bytes) refuse("the file ends within the header");
  std::uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data() + version_end, length_bytes);
  const std::span<const std::byte> rest = file.subspan(version_end + length_bytes);
  if (rest.size() < header_bytes) refuse("the file ends within the header");
  return {HeaderParser(text_of(rest.first(header_bytes))).parse(), rest.subspan(header_bytes)};
}

void require_data_size(const File& file) {
  const std::int64_t count = element_count(file.header.shape);
  const std::size_t item_bytes = file.header.description.item_bytes;
  std::uint64_t expected = 0;
  const bool overflows = __builtin_mul_overflow(static_cast<std::uint64_t>(count), item_bytes, &expected);
  if (overflows || expected != file.data.size()) {
    refuse(fmt::format("{} elements of {} bytes are announced, {} bytes follow", count, item_bytes, file.data.size()));
  }
  // Elements of no bytes would let a few bytes ask for any memory.
  if (item_bytes == 0 && count != 0) refuse("elements of no bytes are not read");
}

// The elements in row-major order, where the file has them in column-major order.
std::vector<std::byte> in_row_major_order(std::span<const std::byte> data, const Shape& shape, std::size_t item_bytes) {
  std::vector<std::byte> ordered(data.size());
  if (ordered.empty()) return ordered;
  std::vector<std::size_t> strides(shape.size());
  std::size_t stride = item_bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    strides[i] = stride;
    stride *= static_cast<std::size_t>(shape[i]);
  }
  std::vector<std::int64_t> indices(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < ordered.size(); target += item_bytes) {
    std::memcpy(ordered.data() + target, data.data() + source, item_bytes);
    for (std::size_t i = shape.size(); i-- > 0;) {
      source += strides[i];
      if (++indices[i] < shape[i]) break;
      source -= strides[i] * static_cast<std::size_t>(shape[i]);
      indices[i] = 0;
    }
  }
  return ordered;
}

void swap_bytes(std::span<std::byte> bytes, std::size_t unit) {
  for (std::size_t i = 0; i + unit <= bytes.size(); i += unit) {
    std::reverse(bytes.data() + i, bytes.data() + i + unit);
  }
}

// What the characters of one 'U' element say, zero characters at the end dropped.
std::string string_from_code_points(std::span<const std::byte> item, bool big_endian) {
  std::vector<char32_t> code_points(item.size() / sizeof(char32_t));
  if (!code_points.empty()) std::memcpy(code_points.data(), item.data(), item.size());
  if (big_endian) swap_bytes(std::as_writable_bytes(std::span(code_points)), sizeof(char32_t));
  while (!code_points.empty() && code_points.back() == 0) code_points.pop_back();
  std::string text;
  for (const char32_t code_point : code_points) {
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point <= 0xdfff)) {
      refuse(fmt::format("a string holds {:#x}, which is no character", static_cast<std::uint32_t>(code_point)));
    }
    append_utf8(text, code_point);
  }
  return text;
}

std::string string_from_bytes(std::span<const std::byte> item) {
  const std::string_view text = text_of(item);
  return std::string(text.substr(0, text.find_last_not_of('\0') + 1));
}

Tensor read_strings(std::span<const std::byte> data, const Header& header) {
  const Description& description = header.description;
  std::vector<std::string> strings;
  strings.reserve(static_cast<std::size_t>(element_count(header.shape)));
  for (std::size_t at = 0; at < data.size(); at += description.item_bytes) {
    const std::span<const std::byte> item = data.subspan(at, description.item_bytes);
    strings.push_back(description.kind == 'U' ? string_from_code_points(item, description.big_endian)
                                              : string_from_bytes(item));
  }
  return Tensor::of_strings(header.shape, std::move(strings));
}

// One byte an element, as ml_dtypes keeps its 4-bit and 2-bit types.
Tensor packed_from_bytes(ElementType type, const Shape& shape, std::span<const std::byte> data) {
  Tensor tensor = Tensor::allocate(type, shape);
  for (std::size_t i = 0; i < data.size(); ++i) {
    set_packed_element(tensor.mutable_bytes(), i, bits_of(type), std::to_integer<std::uint8_t>(data[i]));
  }
  return tensor;
}

struct KindOfNumber {
  char kind;
  std::size_t bytes;
  ElementType type;
};

constexpr std::array<KindOfNumber, 12> kinds_of_numbers{{{'b', 1, ElementType::boolean},
                                                         {'i', 1, ElementType::int8},
                                                         {'i', 2, ElementType::int16},
                                                         {'i', 4, ElementType::int32},
                                                         {'i', 8, ElementType::int64},
                                                         {'u', 1, ElementType::uint8},
                                                         {'u', 2, ElementType::uint16},
                                                         {'u', 4, ElementType::uint32},
                                                         {'u', 8, ElementType::uint64},
                                                         {'f', 2, ElementType::float16},
                                                         {'f', 4, ElementType::float32},
                                                         {'f', 8, ElementType::float64}}};

ElementType element_type_of_raw(const Description& description, std::optional<ElementType> declared) {
  if (!declared) {
    refuse(fmt::format("raw elements of {} bytes do not say their type, and none is declared", description.item_bytes));
  }
  const std::size_t bits = bits_of(*declared);
  if (bits == 0 || (bits + 7) / 8 != description.item_bytes) {
    refuse(fmt::format("raw elements of {} bytes are not {}", description.item_bytes, to_string(*declared)));
  }
  return *declared;
}

ElementType element_type_of(const Description& description, std::optional<ElementType> declared) {
  if (description.kind == 'V') return element_type_of_raw(description, declared);
  for (const KindOfNumber& number : kinds_of_numbers) {
    if (number.kind == description.kind && number.bytes == description.item_bytes) return number.type;
  }
  refuse(
      fmt::format("elements of kind {} and {} bytes are not read: bool, integers, float16 to float64 and strings are",
                  json_excerpt(std::string_view(&description.kind, 1)), description.item_bytes));
}

void require_bools(std::span<const std::byte> data) {
  const auto is_bool = [](std::byte value) { return std::to_integer<unsigned>(value) <= 1; };
  if (!std::all_of(data.begin(), data.end(), is_bool)) refuse("a bool is neither 0 nor 1");
}

Tensor read_numbers(std::span<const std::byte> data, const Header& header, std::optional<ElementType> declared,
                    std::shared_ptr<const void> owner) {
  const ElementType type = element_type_of(header.description, declared);
  if (type == ElementType::boolean) require_bools(data);
  if (bits_of(type) < 8) return packed_from_bytes(type, header.shape, data);
  const std::size_t item_bytes = header.description.item_bytes;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data.data()) % item_bytes == 0;
  if (owner && aligned && !header.description.big_endian) {
    return Tensor::borrow(type, header.shape, data, std::move(owner));
  }
  Tensor tensor = Tensor::allocate(type, header.shape);
  if (!data.empty()) std::memcpy(tensor.mutable_bytes().data(), data.data(), data.size());
  if (header.description.big_endian) swap_bytes(tensor.mutable_bytes(), item_bytes);
  return tensor;
}

// Writing.

std::string description_of(ElementType type) {
  for (const KindOfNumber& number : kinds_of_numbers) {
    if (number.type == type) return fmt::format("{}{}{}", number.bytes == 1 ? '|' : '<', number.kind, number.bytes);
  }
  return fmt::format("<V{}", (bits_of(type) + 7) / 8);
}

void append_header(std::string& out, std::string_view description, const Shape& shape) {
  constexpr std::size_t alignment = 64;
  constexpr std::size_t before_text = magic.size() + 4;
  if (shape.size() > max_dimensions) refuse(fmt::format("more than {} dimensions cannot be written", max_dimensions));
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", description);
  text += fmt::format("{}{}), }}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t whole = (before_text + text.size() + 1 + alignment - 1) / alignment * alignment;
  text.append(whole - before_text - text.size() - 1, ' ');
  text += '\n';
  out += magic;
  out += {'\1', '\0', static_cast<char>(text.size() & 0xffU), static_cast<char>(text.size() >> 8)};
  out += text;
}

std::size_t code_points_in(std::string_view utf8) noexcept {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

void append_code_points(std::string& out, std::string_view text, std::size_t width) {
  const std::size_t end = out.size() + width * sizeof(char32_t);
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    const char32_t code_point = utf8_code_point(text.substr(0, length));
    text.remove_prefix(length);
    for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>((code_point >> shift) & 0xffU);
  }
  out.resize(end, '\0');
}

void append_strings(std::string& out, const Tensor& tensor) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;
  const std::span<const std::string> strings = tensor.strings();
  const bool as_text = std::all_of(strings.begin(), strings.end(), [](const std::string& s) { return is_utf8(s); });
  std::size_t width = 1;
  for (const std::string& text : strings) {
    if (text.ends_with('\0')) refuse("a string that ends in a zero character cannot be written: NumPy would drop it");
    width = std::max(width, as_text ? code_points_in(text) : text.size());
  }
  const std::uint64_t item_bytes = as_text ? width * sizeof(char32_t) : width;
  if (!strings.empty() && item_bytes > max_bytes / strings.size()) {
    throw Error(
        ErrorCode::resource_exhausted,
        fmt::format("npy: {} strings padded to {} bytes each take more than 1 GiB", strings.size(), item_bytes));
  }
  append_header(out, fmt::format("{}{}", as_text ? "<U" : "|S", width), tensor.shape());
  for (const std::string& text : strings) {
    if (as_text) {
      append_code_points(out, text, width);
    } else {
      out += text;
      out.append(width - text.size(), '\0');
    }
  }
}

void append_unpacked(std::string& out, const Tensor& tensor) {
  const std::size_t bits = bits_of(tensor.type());
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.element_count()); ++i) {
    out += static_cast<char>(packed_element(tensor.bytes(), i, bits));
  }
}

}  // namespace

Tensor read_npy(std::span<const std::byte> file, std::optional<ElementType> declared,
                std::shared_ptr<const void> owner) {
  const File opened = open_npy(file);
  const Header& header = opened.header;
  require_data_size(opened);
  std::span<const std::byte> data = opened.data;
  std::vector<std::byte> ordered;
  if (header.fortran_order && header.shape.size() > 1) {
    ordered = in_row_major_order(data, header.shape, header.description.item_bytes);
    data = ordered;
    owner = nullptr;
  }
  const bool text = header.description.kind == 'U' || header.description.kind == 'S';
  const Tensor tensor = text ? read_strings(data, header) : read_numbers(data, header, declared, std::move(owner));
  return declared ? convert(tensor, *declared) : tensor;
}

void append_npy_header(std::string& out, ElementType type, const Shape& shape) {
  append_header(out, description_of(type), shape);
}

void append_npy(std::string& out, const Tensor& tensor) {
  const ElementType type = tensor.type();
  if (type == ElementType::string) return append_strings(out, tensor);
  if (type == ElementType::complex64 || type == ElementType::complex128 || type == ElementType::undefined) {
    refuse(fmt::format("{} tensors cannot be written", to_string(type)));
  }
  append_npy_header(out, type, tensor.shape());
  if (bits_of(type) < 8) return append_unpacked(out, tensor);
  out += text_of(tensor.bytes());
}

}  // namespace gpux
