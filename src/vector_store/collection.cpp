#include "vector_store/collection.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_dimension = 1U << 20;

[[noreturn]] void refuse(std::string_view shown, const std::string& what) {
  throw Error(ErrorCode::invalid_input, fmt::format("'{}' {}", shown, what));
}

void require_same_model(const CollectionFacts& stored, std::string_view model, std::string_view digest,
                        std::string_view shown) {
  if (digest.empty() || stored.digest == digest) return;
  refuse(shown, fmt::format("has vectors of model '{}' ({}), and '{}' is {}; another collection takes those",
                            stored.model, stored.digest, model, digest));
}

[[noreturn]] void refuse_lengths(const CollectionFacts& stored, std::string_view shown) {
  refuse(shown, stored.is_normalized ? "has vectors of length 1, and these are not normalized"
                                     : "has vectors that are not normalized, and these are");
}

void require_same_dimension(std::size_t stored, std::size_t given, std::string_view shown, std::string_view what) {
  if (stored == given) return;
  refuse(shown, fmt::format("has {} of {}, and this one has {}", what, counted(stored, "dimension"), given));
}

}  // namespace

std::string_view name_of(Similarity distance) noexcept {
  const auto* found = std::ranges::find(similarity_names, distance, &decltype(similarity_names)::value_type::second);
  return found->first;
}

std::optional<Similarity> distance_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(similarity_names, name, &decltype(similarity_names)::value_type::first);
  if (found == similarity_names.end()) return std::nullopt;
  return found->second;
}

void require_same_vectors(const CollectionFacts& stored, const CollectionFacts& given, std::string_view shown) {
  require_same_model(stored, given.model, given.digest, shown);
  require_same_dimension(stored.dimension, given.dimension, shown, "vectors");
  if (stored.sparse_dimension != given.sparse_dimension) {
    refuse(shown, stored.sparse_dimension == 0 ? "has dense vectors alone, and no sparse ones beside them"
                                               : "has sparse vectors beside the dense ones, and these have none");
  }
  if (stored.distance != given.distance) {
    refuse(shown,
           fmt::format("compares vectors by {}, and not by {}", name_of(stored.distance), name_of(given.distance)));
  }
  if (stored.is_normalized != given.is_normalized) refuse_lengths(stored, shown);
  if (stored.prompt != given.prompt) {
    refuse(shown, fmt::format("has vectors with the prompt '{}', and these have '{}'", stored.prompt, given.prompt));
  }
}

void accept_vectors(const CollectionFacts& stored, const CollectionFacts& given, std::string_view shown) {
  require_same_vectors(stored, given, shown);
  if (stored.precision == given.precision) return;
  log::warning("'{}' has vectors computed in {}, and these are computed in {}", shown, stored.precision,
               given.precision);
}

void require_same_lengths(const CollectionFacts& stored, bool is_normalized, std::string_view shown) {
  if (stored.distance == Similarity::cosine || stored.is_normalized == is_normalized) return;
  refuse_lengths(stored, shown);
}

void require_searchable(const CollectionFacts& stored, std::string_view model, std::string_view digest,
                        std::size_t dimension, std::string_view shown) {
  require_same_model(stored, model, digest, shown);
  require_same_dimension(stored.dimension, dimension, shown, "vectors");
}

Json facts_to_json(const CollectionFacts& facts) {
  return {{"model", facts.model},
          {"digest", facts.digest},
          {"precision", facts.precision},
          {"dimension", facts.dimension},
          {"distance", name_of(facts.distance)},
          {"is_normalized", facts.is_normalized},
          {"prompt", facts.prompt},
          {"sparse_dimension", facts.sparse_dimension}};
}

CollectionFacts facts_from_json(const Json& json, std::string_view shown) {
  try {
    const auto distance = distance_named(json.at("distance").get<std::string>());
    const auto size_of = [&](const char* name) {
      const std::uint64_t size =
          json.at(name).is_number_unsigned() ? json.at(name).get<std::uint64_t>() : max_dimension + 1;
      if (size > max_dimension) refuse(shown, fmt::format("has facts with a '{}' that is no dimension", name));
      return static_cast<std::size_t>(size);
    };
    CollectionFacts facts{.model = json.at("model").get<std::string>(),
                          .digest = json.at("digest").get<std::string>(),
                          .precision = json.at("precision").get<std::string>(),
                          .dimension = size_of("dimension"),
                          .distance = distance.value_or(Similarity::cosine),
                          .is_normalized = json.at("is_normalized").get<bool>(),
                          .prompt = json.at("prompt").get<std::string>(),
                          .sparse_dimension = size_of("sparse_dimension")};
    if (distance && facts.dimension != 0) return facts;
  } catch (const Json::exception&) {
    // as below
  }
  refuse(shown, "has facts of its model that gpux has not written");
}

Json stored_json(std::string_view text, int max_depth) {
  return Json::parse(
      text, [max_depth](int depth, auto, auto&) { return depth < max_depth; }, false);
}

std::string storable_text(std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = text[at] == '\0' ? 0 : utf8_character(text.substr(at));
    out += bytes == 0 ? replacement : text.substr(at, bytes);
    at += std::max<std::size_t>(bytes, 1);
  }
  return out;
}

Json storable_json(const Json& json) {
  if (json.is_string()) return storable_text(json.get_ref<const std::string&>());
  if (json.is_array()) {
    Json list = Json::array();
    for (const Json& one : json) list.push_back(storable_json(one));
    return list;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& [name, value] : json.items()) object[storable_text(name)] = storable_json(value);
  return object;
}

}  // namespace gpux::vector_store
