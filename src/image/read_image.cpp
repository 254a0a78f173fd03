#include "image/read_image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/files.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "image/decode.h"
#include "image/header_size.h"
#include "image/prepare.h"

namespace gpux::image {
namespace {

constexpr std::string_view url_scheme = "data:";
constexpr std::string_view url_encoding = ";base64";
// Beyond it, a text that was meant as something else is not worth showing.
constexpr std::size_t limit_shown = 60;
constexpr std::size_t limit_path = 4096;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

bool is_break(char c) noexcept {
  return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

std::optional<std::vector<std::byte>> decoded_base64(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), is_break)) return from_base64(text);
  std::string joined;
  joined.reserve(text.size());
  std::copy_if(text.begin(), text.end(), std::back_inserter(joined), [](char c) { return !is_break(c); });
  return from_base64(joined);
}

std::string accepted_by(const Sources& sources) {
  std::vector<std::string> forms;
  if (sources.path) forms.emplace_back("the path of a file");
  if (sources.base64) forms.emplace_back("base64");
  if (sources.data_url) forms.emplace_back("a data URL");
  if (sources.bytes) forms.emplace_back("the bytes");
  return fmt::format("{} of a JPEG, PNG or WebP image {} accepted", join(forms, ", "),
                     forms.size() == 1 ? "is" : "are");
}

[[noreturn]] void refuse(std::string_view what, const Sources& sources) {
  throw Error(ErrorCode::invalid_input, fmt::format("cannot read the image: {}; {}", what, accepted_by(sources)));
}

std::string in_short(std::string_view value) {
  if (value.size() <= limit_shown) return fmt::format("'{}'", value);
  return fmt::format("'{}…' ({} bytes)", utf8_prefix(value, limit_shown), value.size());
}

Tensor prepared(std::span<const std::byte> file, const Recipe& recipe) {
  return prepare(decode(file, channels_of(recipe.color), Limits{recipe.max_pixels}), recipe);
}

// RFC 2397, as far as images need it: what the media type says is not looked at, the content tells.
std::vector<std::byte> data_of_url(std::string_view value, const Sources& sources) {
  const std::size_t comma = value.find(',');
  if (comma == std::string_view::npos) refuse("the data URL has no comma", sources);
  if (!value.substr(0, comma).ends_with(url_encoding)) refuse("the data URL is not of base64", sources);
  std::optional<std::vector<std::byte>> data = decoded_base64(value.substr(comma + 1));
  if (!data) refuse("what the data URL holds is not base64", sources);
  return std::move(*data);
}

// What the header says of the image in the value, in whatever form it is.
std::optional<Size> claimed_size(std::string_view value) {
  // JPEG files may have their size behind what cameras write.
  constexpr std::array<std::size_t, 2> header_bytes{1 << 10, 256 << 10};
  if (value.starts_with(url_scheme)) value.remove_prefix(std::min(value.find(','), value.size() - 1) + 1);
  if (format_of(bytes_of(value))) return size_in_header(bytes_of(value));
  for (const std::size_t limit : header_bytes) {
    std::string beginning;
    for (std::size_t i = 0; i < value.size() && beginning.size() < limit; ++i) {
      if (!is_break(value[i])) beginning += value[i];
    }
    beginning.resize(beginning.size() / 4 * 4);
    const auto file = from_base64(beginning);
    if (!file) return std::nullopt;
    if (const auto size = size_in_header(*file)) return size;
  }
  return std::nullopt;
}

}  // namespace

Tensor read_image(std::string_view value, const Recipe& recipe, const Sources& sources) {
  if (value.empty()) refuse("it is empty", sources);
  if (value.starts_with(url_scheme)) {
    if (!sources.data_url) refuse("it is a data URL", sources);
    return prepared(data_of_url(value, sources), recipe);
  }
  if (value.starts_with("http://") || value.starts_with("https://")) {
    refuse(fmt::format("{} is an address, and nothing is fetched", in_short(value)), sources);
  }
  if (format_of(bytes_of(value))) {
    if (!sources.bytes) refuse("these are the bytes themselves", sources);
    return prepared(bytes_of(value), recipe);
  }
  if (sources.base64) {
    const auto data = decoded_base64(value);
    // A path may be made of the letters of base64; an image in base64 begins as an image does.
    if (data && (format_of(*data) || !sources.path)) return prepared(*data, recipe);
  }
  if (sources.path && value.size() <= limit_path && value.find('\0') == std::string_view::npos) {
    const MappedFile file{std::filesystem::path(value)};
    return prepared(file.bytes(), recipe);
  }
  refuse(fmt::format("{} is none", in_short(value)), sources);
}

std::uint64_t work_of_image(std::string_view value, const Recipe& recipe) noexcept {
  constexpr std::uint64_t bytes_per_unknown = 64;
  try {
    const std::optional<Size> size = claimed_size(value);
    if (!size) return value.size() * bytes_per_unknown;
    const auto pixels = static_cast<std::uint64_t>(size->height) * static_cast<std::uint64_t>(size->width);
    if (size->height > limit_side || size->width > limit_side || pixels > recipe.max_pixels) return 0;  // refused by it
    const Size made = prepared_size(*size, recipe);
    const auto elements = static_cast<std::uint64_t>(made.height) * static_cast<std::uint64_t>(made.width);
    // The pixels, once more where they are turned or resized; floats and what the value was packed in.
    return (pixels * 2 + elements * (1 + sizeof(float))) * channels_of(recipe.color) + 2 * value.size();
  } catch (const std::exception&) {
    return value.size() * bytes_per_unknown;
  }
}

}  // namespace gpux::image
