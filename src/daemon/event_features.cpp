#include "daemon/event_features.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include <nlohmann/json.hpp>

#include "base/sha256.h"

namespace gpux::daemon {
namespace {

using Json = nlohmann::json;

// To be changed with any number below: vectors of two definitions are near to each other by chance alone.
constexpr std::string_view definition = "gpux heuristic features 1";

constexpr std::array<std::string_view, 4> operations{"create", "update", "delete", "query"};
constexpr std::array<std::string_view, 5> metadata_names{"user", "host", "process", "version", "source"};

/// Where each feature is.
enum Place : std::size_t {
  plugin_hash = 0,
  operation = 1,
  is_object = 5,
  size = 6,
  first_letters = 7,
  strings = 8,
  numbers = 9,
  booleans = 10,
  nulls = 11,
  text_hash = 12,
  metadata_size = 13,
  metadata = 14,
  hour = 19,
  weekday = 20,
};

// 0 to 1.
float hash_of(std::string_view text) {
  std::uint32_t hash = 0;
  for (const char c : text) hash = hash * 31 + static_cast<unsigned char>(c);
  return static_cast<float>(static_cast<double>(hash) / 4294967296.0);
}

Json parsed(const std::string& json) {
  return Json::parse(json.empty() ? "null" : json, nullptr, false);
}

// Of all members of an object or elements of a list.
void add_shares(const Json& data, std::vector<float>& features) {
  if (data.empty()) return;
  const auto share = static_cast<float>(1.0 / static_cast<double>(data.size()));
  for (const Json& value : data) {
    if (value.is_string()) features[strings] += share;
    if (value.is_number()) features[numbers] += share;
    if (value.is_boolean()) features[booleans] += share;
    if (value.is_null()) features[nulls] += share;
  }
}

void add_data(const Json& data, std::vector<float>& features) {
  constexpr float members = 100, bytes = 1000, letters = 26;
  if (data.is_string()) {
    const auto& text = data.get_ref<const std::string&>();
    features[size] = static_cast<float>(text.size()) / bytes;
    features[text_hash] = hash_of(text);
    return;
  }
  if (!data.is_structured()) return;
  features[size] = static_cast<float>(data.size()) / members;
  add_shares(data, features);
  if (!data.is_object()) return;
  features[is_object] = 1;
  std::set<char> first;
  for (const auto& [name, value] : data.items()) {
    if (!name.empty()) first.insert(name.front());
  }
  features[first_letters] = static_cast<float>(first.size()) / letters;
}

// Seconds since 1970, in UTC. Without them, and where they are none of the years 1970 to 9999, both are 0.
void add_time(const Json& timestamp, std::vector<float>& features) {
  constexpr double last_second = 253402300799.0;
  if (!timestamp.is_number()) return;
  const double seconds = timestamp.get<double>();
  if (!(seconds >= 0 && seconds <= last_second)) return;
  const auto whole = static_cast<std::uint64_t>(seconds);
  features[hour] = static_cast<float>(whole / 3600 % 24) / 24;
  // 1 January 1970 was a Thursday; Monday is 0.
  features[weekday] = static_cast<float>((whole / 86400 + 3) % 7) / 7;
}

}  // namespace

std::vector<float> features_of(const Event& event) {
  std::vector<float> features(features_dimension, 0);
  features[plugin_hash] = hash_of(event.plugin);
  const auto* const known = std::ranges::find(operations, event.operation);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const float one_of_them = known == operations.begin() + i ? 1 : 0;
    features[operation + i] = known == operations.end() ? 0.5F : one_of_them;
  }
  add_data(parsed(event.data), features);
  const Json given = parsed(event.metadata);
  if (given.is_object()) {
    features[metadata_size] = static_cast<float>(given.size()) / 50;
    for (std::size_t i = 0; i < metadata_names.size(); ++i) {
      features[metadata + i] = given.contains(metadata_names.at(i)) ? 1 : 0;
    }
  }
  add_time(parsed(event.timestamp), features);
  return features;
}

Event event_of_text(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string_view::npos && text[first] == '{';
  if (is_object || Json::accept(text)) return read_event(text, {});
  Event event;
  event.text = text;
  event.timestamp = event.metadata = "null";
  event.data = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  event.data_hash = sha256_of(event.data);
  return event;
}

std::string features_digest() {
  return sha256_of(definition);
}

vector_store::CollectionFacts features_facts() {
  return {.model = std::string(features_model),
          .digest = "sha256:" + features_digest(),
          .precision = "fp32",
          .dimension = features_dimension};
}

}  // namespace gpux::daemon
