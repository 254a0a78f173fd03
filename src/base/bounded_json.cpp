#include "base/bounded_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>
#include <type_traits>

#include <fmt/format.h>

namespace gpux {
namespace {

/// Builds the document, and ends at what is too deep or too wide. A callback of nlohmann's parse() could do the same,
/// but at the end of each object its parser looks through all that its list or object has so far.
template <typename Json>
class BoundedDocument {
 public:
  BoundedDocument(Json& document, WholeNumbers numbers) : builder_(document), numbers_(numbers) {}

  bool null() { return builder_.null(); }

  bool boolean(bool value) { return builder_.boolean(value); }

  bool number_integer(typename Json::number_integer_t value) { return builder_.number_integer(value); }

  bool number_unsigned(typename Json::number_unsigned_t value) { return builder_.number_unsigned(value); }

  bool number_float(typename Json::number_float_t value, const std::string& text) {
    require_exact(text);
    return builder_.number_float(value, text);
  }

  bool string(std::string& value) { return builder_.string(value); }

  bool binary(typename Json::binary_t& value) { return builder_.binary(value); }

  bool start_object(std::size_t size) {
    enter();
    keys_.at(depth_) = 0;
    return builder_.start_object(size);
  }

  bool key(std::string& name) {
    constexpr bool compares_keys = std::is_same_v<Json, nlohmann::ordered_json>;
    if (compares_keys && ++keys_.at(depth_) > max_compared_keys) {
      throw Error(ErrorCode::storage, "an object of more than 1024 keys");
    }
    return builder_.key(name);
  }

  bool end_object() {
    --depth_;
    return builder_.end_object();
  }

  bool start_array(std::size_t size) {
    enter();
    return builder_.start_array(size);
  }

  bool end_array() {
    --depth_;
    return builder_.end_array();
  }

  template <typename Exception>
  bool parse_error(std::size_t position, const std::string& token, const Exception& error) {
    require_exact(token);  // one that not even a float64 holds
    return builder_.parse_error(position, token, error);
  }

 private:
  static constexpr std::size_t max_depth = 32, max_compared_keys = 1024;

  void enter() {
    if (++depth_ > max_depth) throw Error(ErrorCode::storage, "nested deeper than 32 levels");
  }

  void require_exact(std::string_view number) const {
    if (numbers_ == WholeNumbers::exact && exceeds_64_bits(number)) throw too_large_number(ErrorCode::storage, number);
  }

  nlohmann::detail::json_sax_dom_parser<Json> builder_;
  WholeNumbers numbers_;
  std::size_t depth_ = 0;
  std::array<std::size_t, max_depth + 1> keys_{};  // of the object that is open at each level
};

template <typename Integer>
bool is_out_of_range(std::string_view digits) noexcept {
  Integer value = 0;
  return std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc::result_out_of_range;
}

}  // namespace

bool exceeds_64_bits(std::string_view text) noexcept {
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  const bool is_whole = !digits.empty() && digits.front() != '0' &&
                        std::ranges::all_of(digits, [](char one) { return one >= '0' && one <= '9'; });
  if (!is_whole) return false;
  return is_negative ? is_out_of_range<std::int64_t>(text) : is_out_of_range<std::uint64_t>(text);
}

Error too_large_number(ErrorCode code, std::string_view number) {
  constexpr std::size_t max_shown = 40;
  return {code, fmt::format("the number {}{} does not fit in 64 bits; give it as text", number.substr(0, max_shown),
                            number.size() > max_shown ? "…" : "")};
}

template <typename Json>
Json parse_bounded_json(std::string_view text, WholeNumbers numbers) {
  Json document;
  BoundedDocument<Json> bounded(document, numbers);
  (void)Json::sax_parse(text, &bounded);
  return document;
}

template nlohmann::json parse_bounded_json(std::string_view text, WholeNumbers numbers);
template nlohmann::ordered_json parse_bounded_json(std::string_view text, WholeNumbers numbers);

}  // namespace gpux
