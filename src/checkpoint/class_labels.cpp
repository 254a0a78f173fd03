#include "checkpoint/class_labels.h"

#include <charconv>
#include <cstddef>
#include <system_error>

#include <fmt/format.h>

#include "base/utf8_prefix.h"

namespace gpux::checkpoint {

std::vector<std::string> class_labels_in(const JsonSettings& config) {
  const auto* named = config.find("id2label");
  if (named == nullptr) return {};
  if (!named->is_object()) config.refuse_value("id2label", *named, "an object of texts");
  std::vector<std::string> labels(named->size());
  std::vector<bool> seen(named->size(), false);
  for (const auto& [key, label] : named->items()) {
    std::size_t place = labels.size();
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), place);
    if (failure != std::errc() || end != key.data() + key.size() || place >= labels.size() || seen[place] ||
        !label.is_string()) {
      config.refuse_value(fmt::format("id2label.{}", utf8_prefix(key, 40)), label,
                          fmt::format("a text each for the numbers 0 to {}", labels.size() - 1));
    }
    labels[place] = label.get<std::string>();
    seen[place] = true;
  }
  return labels;
}

std::string architecture_in(const JsonSettings& config) {
  const auto* architectures = config.find("architectures");
  if (architectures == nullptr || !architectures->is_array() || architectures->empty()) return {};
  const auto& first = architectures->front();
  return first.is_string() ? first.get<std::string>() : std::string();
}

}  // namespace gpux::checkpoint
