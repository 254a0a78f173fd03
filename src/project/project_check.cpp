#include "project/project_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "image/recipe.h"
#include "project/declared_type.h"
#include "tensor/json_text.h"

namespace gpux {
namespace {

using yaml::TreeNode;

constexpr std::size_t limit_shown = 20;

std::string described(const TreeNode& node) {
  switch (node.kind) {
    case TreeNode::Kind::null:
      return "empty";
    case TreeNode::Kind::scalar:
      return in_quotes(node.text);
    case TreeNode::Kind::list:
      return "a list";
    case TreeNode::Kind::map:
      return "a map";
  }
  return {};
}

std::vector<std::string> names_of(std::span<const SchemaKey> keys) {
  std::vector<std::string> names;
  for (const SchemaKey& key : keys) {
    if (key.refused.empty()) names.emplace_back(key.name);
  }
  return names;
}

std::string joined(std::span<const std::string_view> words) {
  return join(std::vector<std::string>(words.begin(), words.end()));
}

bool is_named_provider(const TreeNode& node) {
  return node.find("name") != nullptr;
}

constexpr std::int64_t max_workers = 1024;

// What json_reader.h takes where it expects a number.
bool is_number(const std::string& text) {
  return is_json_number(text) || text == "NaN" || text == "Infinity" || text == "-Infinity";
}

class Checker {
 public:
  Checker(ProblemList& problems, Positions& positions) : problems_(problems), positions_(positions) {}

  void check(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind == TreeNode::Kind::null) return;  // not given: the object says so where it is required
    switch (key.kind) {
      case KeyKind::shape:
        return check_shape(node, path);
      case KeyKind::text_list:
        return check_text_list(node, path);
      case KeyKind::text_map:
        return check_text_map(node, path, true);
      case KeyKind::path_map:
        return check_path_map(node, path);
      case KeyKind::named_objects:
        return check_named_objects(node, key, path);
      case KeyKind::provider_list:
        return check_provider_list(node, key, path);
      case KeyKind::size_maps:
        return check_size_maps(node, path);
      case KeyKind::number_map:
        return check_number_map(node, path);
      case KeyKind::numbers:
        return check_numbers(node, path);
      case KeyKind::image_size:
        return check_image_size(node, path);
      case KeyKind::short_object:
        return check_short_object(node, key, path);
      case KeyKind::object:
        return check_object(node, key.keys, path, true);
      default:
        return check_scalar(node, key, path);
    }
  }

  void check_object(const TreeNode& node, std::span<const SchemaKey> keys, const std::string& path, bool with_name) {
    if (node.kind != TreeNode::Kind::map) {
      const std::string what = path.empty() ? std::string("the file") : in_quotes(path);
      problems_.add(node.position,
                    fmt::format("{} is {}; a map with {} is accepted", what, described(node), join(names_of(keys))));
      return;
    }
    for (const yaml::Entry& entry : node.entries) check_entry(entry, keys, path, with_name);
    for (const SchemaKey& key : keys) {
      if (!key.required || (!with_name && key.name == "name")) continue;
      const TreeNode* value = node.find(key.name);
      if (value != nullptr && value->kind != TreeNode::Kind::null) continue;
      problems_.add(node.position, fmt::format("{} is missing", in_quotes(child(path, key.name))));
    }
  }

 private:
  static std::string child(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
  }

  void refuse(const TreeNode& node, const std::string& path, std::string_view accepted) {
    problems_.add(node.position, fmt::format("{} is {}; {}", in_quotes(path), described(node), accepted));
  }

  void check_entry(const yaml::Entry& entry, std::span<const SchemaKey> keys, const std::string& path, bool with_name) {
    const std::string full = child(path, entry.key);
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const SchemaKey& k) { return k.name == entry.key; });
    if (known == keys.end()) {
      const std::vector<std::string> names = names_of(keys);
      const std::string_view near = nearest(entry.key, names);
      const std::string hint =
          near.empty() ? fmt::format("known here: {}", join(names)) : fmt::format("did you mean '{}'?", near);
      problems_.add(entry.key_position, fmt::format("unknown key {}; {}", in_quotes(full), hint));
    } else if (!known->refused.empty()) {
      problems_.add(entry.key_position, fmt::format("the key {} is refused: {}", in_quotes(full), known->refused));
    } else if (!with_name && entry.key == "name") {
      problems_.add(entry.key_position, fmt::format("{}: the name stands before the colon already", in_quotes(full)));
    } else {
      positions_.emplace(full, entry.key_position);
      check(*entry.value, *known, full);
    }
  }

  static bool is_worker_count(std::string_view text) {
    if (text == "auto" || text == "devices") return true;
    for (const std::string_view kind : {"devices:", "cores:"}) {
      if (text.starts_with(kind)) text.remove_prefix(kind.size());
    }
    const std::int64_t count = integer_from(std::string(text)).value_or(0);
    return count >= 1 && count <= max_workers;
  }

  static bool fits(const std::string& text, const SchemaKey& key) {
    switch (key.kind) {
      case KeyKind::choice:
        return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
      case KeyKind::boolean:
        return boolean_from(text).has_value();
      case KeyKind::strictness:
        return text == "nodes" || boolean_from(text).has_value();
      case KeyKind::integer:
        return integer_from(text).value_or(-1) >= key.minimum && integer_from(text).value_or(-1) <= key.maximum;
      case KeyKind::worker_count:
        return is_worker_count(text);
      case KeyKind::batch_axis:
        return text == "0" || text == "none";
      case KeyKind::duration:
        return duration_from(text).has_value();
      case KeyKind::memory_size:
        return parse_memory_size(text).value_or(0) > 0;
      case KeyKind::value_type:
        return value_type_from(text).has_value();
      case KeyKind::ratio:
        return ratio_from(text).has_value();
      default:
        return true;
    }
  }

  static std::string accepted_by(const SchemaKey& key) {
    switch (key.kind) {
      case KeyKind::choice:
        return joined(key.choices) + (key.choices.size() == 1 ? " is accepted" : " are accepted");
      case KeyKind::boolean:
        return "true or false is accepted";
      case KeyKind::strictness:
        return "true, false or nodes is accepted";
      case KeyKind::integer:
        return fmt::format("a whole number from {} to {} is accepted", key.minimum, key.maximum);
      case KeyKind::worker_count:
        return fmt::format("a whole number from 1 to {}, auto, devices, devices:N or cores:N is accepted", max_workers);
      case KeyKind::batch_axis:
        return "0 or none is accepted";
      case KeyKind::duration:
        return "seconds, or a text such as 500ms, 5s, 2m is accepted";
      case KeyKind::memory_size:
        return "bytes, or a text such as 512MiB, 2GB is accepted";
      case KeyKind::value_type:
        return "ONNX's types are accepted: float32, float16, int64, bool, string, seq(tensor(float)), …";
      case KeyKind::ratio:
        return "a number above 0, or a ratio such as 1/255 is accepted";
      default:
        return "a text is accepted";
    }
  }

  void check_scalar(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind != TreeNode::Kind::scalar || !fits(node.text, key)) refuse(node, path, accepted_by(key));
  }

  void check_shape(const TreeNode& node, const std::string& path) {
    if (node.kind != TreeNode::Kind::list) {
      return refuse(node, path, "a list of sizes, names, null and -1 is accepted");
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (dimension_from(*node.items[i])) continue;
      refuse(*node.items[i], fmt::format("{}[{}]", path, i), "a size from 0, a name, null or -1 is accepted");
    }
  }

  void check_text_list(const TreeNode& node, const std::string& path) {
    if (node.kind != TreeNode::Kind::list) return refuse(node, path, "a list of texts is accepted");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (node.items[i]->kind == TreeNode::Kind::scalar) continue;
      refuse(*node.items[i], fmt::format("{}[{}]", path, i), "a text is accepted (in quotes where it is 'null')");
    }
  }

  void check_text_map(const TreeNode& node, const std::string& path, bool null_accepted) {
    if (node.kind != TreeNode::Kind::map) return refuse(node, path, "a map of names to texts is accepted");
    for (const yaml::Entry& entry : node.entries) {
      const TreeNode::Kind kind = entry.value->kind;
      if (kind == TreeNode::Kind::scalar || (kind == TreeNode::Kind::null && null_accepted)) continue;
      refuse(*entry.value, child(path, entry.key), "a text is accepted");
    }
  }

  void check_path_map(const TreeNode& node, const std::string& path) {
    if (node.kind == TreeNode::Kind::map) return check_text_map(node, path, false);
    if (node.kind != TreeNode::Kind::list) return refuse(node, path, "a map of names to paths is accepted");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      check_text_map(*node.items[i], fmt::format("{}[{}]", path, i), false);
    }
  }

  void check_named_objects(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind == TreeNode::Kind::list) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        check_object(*node.items[i], key.keys, fmt::format("{}[{}]", path, i), true);
      }
      return;
    }
    if (node.kind != TreeNode::Kind::map) {
      return refuse(
          node, path,
          fmt::format("a list of objects with name and {0}, or a map of names to {0}s is accepted", key.short_form));
    }
    const auto type =
        std::find_if(key.keys.begin(), key.keys.end(), [&](const SchemaKey& k) { return k.name == key.short_form; });
    for (const yaml::Entry& entry : node.entries) {
      const std::string full = child(path, entry.key);
      if (entry.value->kind == TreeNode::Kind::scalar) {
        check_scalar(*entry.value, *type, full);
      } else {
        check_object(*entry.value, key.keys, full, false);
      }
    }
  }

  void check_size_maps(const TreeNode& node, const std::string& path) {
    if (node.kind != TreeNode::Kind::list) return refuse(node, path, "a list of maps of names to sizes is accepted");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string full = fmt::format("{}[{}]", path, i);
      if (node.items[i]->kind != TreeNode::Kind::map) {
        refuse(*node.items[i], full, "a map of names to sizes is accepted");
        continue;
      }
      for (const yaml::Entry& entry : node.items[i]->entries) {
        const auto size = entry.value->kind == TreeNode::Kind::scalar ? integer_from(entry.value->text) : std::nullopt;
        if (size.value_or(0) < 1) refuse(*entry.value, child(full, entry.key), "a size from 1 is accepted");
      }
    }
  }

  void check_number_map(const TreeNode& node, const std::string& path) {
    if (node.kind != TreeNode::Kind::map) return refuse(node, path, "a map of names to numbers is accepted");
    for (const yaml::Entry& entry : node.entries) {
      if (entry.value->kind == TreeNode::Kind::scalar && is_number(entry.value->text)) continue;
      refuse(*entry.value, child(path, entry.key), "a number, NaN, Infinity or -Infinity is accepted");
    }
  }

  void check_numbers(const TreeNode& node, const std::string& path) {
    if (node.kind == TreeNode::Kind::map || (node.kind == TreeNode::Kind::list && node.items.empty())) {
      return refuse(node, path, "a number, or a list of numbers is accepted");
    }
    if (node.kind == TreeNode::Kind::scalar) return check_number(node, path);
    for (std::size_t i = 0; i < node.items.size(); ++i) check_number(*node.items[i], fmt::format("{}[{}]", path, i));
  }

  void check_number(const TreeNode& node, const std::string& path) {
    if (node.kind == TreeNode::Kind::scalar && number_from(node.text)) return;
    refuse(node, path, "a number is accepted");
  }

  void check_image_size(const TreeNode& node, const std::string& path) {
    const auto check_side = [this](const TreeNode& side, const std::string& where) {
      const auto pixels = side.kind == TreeNode::Kind::scalar ? integer_from(side.text) : std::nullopt;
      if (pixels && *pixels >= 1 && *pixels <= image::limit_side) return;
      refuse(side, where, fmt::format("a whole number from 1 to {} is accepted", image::limit_side));
    };
    if (node.kind == TreeNode::Kind::scalar) return check_side(node, path);
    if (node.kind != TreeNode::Kind::list || node.items.size() != 2) {
      return refuse(node, path, "a size, or a list of two, [height, width], is accepted");
    }
    for (std::size_t i = 0; i < 2; ++i) check_side(*node.items[i], fmt::format("{}[{}]", path, i));
  }

  void check_short_object(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind == TreeNode::Kind::map) return check_object(node, key.keys, path, true);
    const auto alone =
        std::find_if(key.keys.begin(), key.keys.end(), [&](const SchemaKey& k) { return k.name == key.short_form; });
    check(node, *alone, path);
  }

  void check_provider_list(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind == TreeNode::Kind::scalar) return;
    if (node.kind != TreeNode::Kind::list) return refuse(node, path, "a list of provider names is accepted");
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      check_provider(*node.items[i], key, fmt::format("{}[{}]", path, i));
    }
  }

  void check_provider(const TreeNode& node, const SchemaKey& key, const std::string& path) {
    if (node.kind == TreeNode::Kind::scalar) return;
    if (node.kind == TreeNode::Kind::map && is_named_provider(node)) return check_object(node, key.keys, path, true);
    if (node.kind != TreeNode::Kind::map || node.entries.size() != 1) {
      return refuse(node, path, "a name, one name with its options, or a map with name, options, library is accepted");
    }
    const yaml::Entry& only = node.entries.front();
    if (only.value->kind != TreeNode::Kind::null) check_text_map(*only.value, child(path, only.key), true);
  }

  ProblemList& problems_;
  Positions& positions_;
};

}  // namespace

void ProblemList::add(yaml::Position position, Message message) {
  ++count_;
  if (count_ > limit_shown) return;
  shown_ = format_message("{}{}{}:{}:{}: {}", shown_, shown_.empty() ? "" : "; ", file_, position.line, position.column,
                          message);
}

void ProblemList::throw_if_any() const {
  if (empty()) return;
  Message message = shown_;
  if (count_ > limit_shown) message.emplace_back(fmt::format("; and {} more", count_ - limit_shown));
  throw Error(ErrorCode::invalid_config, std::move(message));
}

void check_against_schema(const TreeNode& node, const SchemaKey& schema, ProblemList& problems, Positions& positions) {
  Checker(problems, positions).check_object(node, schema.keys, "", true);
}

std::optional<bool> boolean_from(std::string_view text) noexcept {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<std::int64_t> integer_from(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_from(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> ratio_from(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  std::string_view above = text.substr(0, slash);
  std::string_view below = slash == std::string_view::npos ? "1" : text.substr(slash + 1);
  while (above.ends_with(' ')) above.remove_suffix(1);
  while (below.starts_with(' ')) below.remove_prefix(1);
  const auto numerator = number_from(above);
  const auto denominator = number_from(below);
  if (!numerator || !denominator || *numerator <= 0 || *denominator <= 0) return std::nullopt;
  const double ratio = *numerator / *denominator;
  return std::isfinite(ratio) && ratio > 0 ? std::optional(ratio) : std::nullopt;
}

std::optional<std::chrono::milliseconds> duration_from(std::string_view text) noexcept {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  static constexpr std::array<std::pair<std::string_view, double>, 6> units{
      {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}}};
  const auto* known = std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
  if (known == units.end()) return std::nullopt;
  const double milliseconds = number * known->second;
  if (!(milliseconds > 0) || milliseconds > 10 * 366 * 86400e3) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(milliseconds)));
}

std::optional<Dimension> dimension_from(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::null) return Dimension{};
  if (node.kind != TreeNode::Kind::scalar || node.text.empty()) return std::nullopt;
  if (const std::optional<std::int64_t> size = integer_from(node.text)) {
    if (*size < -1) return std::nullopt;
    if (*size == -1) return Dimension{};
    return Dimension{size, {}};
  }
  const char first = node.text.front();
  if ((first >= '0' && first <= '9') || first == '-' || first == '+' || first == '.') return std::nullopt;
  return Dimension{std::nullopt, node.text};
}

}  // namespace gpux
