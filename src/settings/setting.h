#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpux {

/// Who gave a setting its value.
struct Source {
  enum class Kind : std::uint8_t {
    call,        ///< a caller of the library
    flag,        ///< a flag of the command line
    variable,    ///< an environment variable
    file,        ///< gpux.yml, a list of models, the state of the daemon
    package,     ///< what a package was built for
    by_default,  ///< nobody
  };
  Kind kind = Kind::by_default;
  std::string name;   ///< in messages and verdicts: "precision", "--precision", "GPUX_PRECISION", "serving.workers"
  std::string place;  ///< in a file: "gpux.yml:12:5"; empty: as `name`

  bool operator==(const Source&) const = default;
};

/// Whether a person, or a program of theirs, asked for it now: not a file, a package or a default.
constexpr bool is_asked_now(const Source& source) noexcept {
  return source.kind == Source::Kind::call || source.kind == Source::Kind::flag ||
         source.kind == Source::Kind::variable;
}

/// The source for a message that points to it.
inline const std::string& place_of(const Source& source) noexcept {
  return source.place.empty() ? source.name : source.place;
}

/// A value and its source.
template <typename Value>
struct Setting {
  Value value{};
  Source source;

  bool operator==(const Setting&) const = default;
};

/// A setting that may be unset (empty).
template <typename Value>
using MaybeSetting = std::optional<Setting<Value>>;

/// Sets `setting` to `otherwise` if it is unset.
template <typename Value>
void fill(MaybeSetting<Value>& setting, const MaybeSetting<Value>& otherwise) {
  if (!setting) setting = otherwise;
}

template <typename Value>
MaybeSetting<Value> setting(std::optional<Value> value, Source source) {
  if (!value) return std::nullopt;
  return Setting<Value>{*std::move(value), std::move(source)};
}

/// Error `"--device is 'x'; accepted: a number"`: usage, or invalid_config where a file is the source, with the place.
[[noreturn]] void refuse(std::string_view text, const Source& source, std::string_view accepted);

}  // namespace gpux
