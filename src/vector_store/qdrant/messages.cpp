#include "vector_store/qdrant/messages.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.h"
#include "base/utf8_prefix.h"

namespace gpux::vector_store {
namespace {

using QdrantJson = nlohmann::json;

// From it on, not every integer is a float64.
constexpr double max_exact_integer = 9007199254740991;

std::string_view qdrant_name(Similarity distance) {
  switch (distance) {
    case Similarity::dot:
      return "Dot";
    case Similarity::euclidean:
      return "Euclid";
    case Similarity::manhattan:
      return "Manhattan";
    default:
      return "Cosine";
  }
}

bool is_plain_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

// Qdrant's path of a member: what is no plain name is quoted.
std::string key_of(const Condition& condition) {
  std::string key = "payload";
  for (const std::string& name : condition.path) {
    if (name.find('"') != std::string::npos) {
      throw Error(ErrorCode::usage, fmt::format("--where: Qdrant has no name with a double quote, as in '{}'", name));
    }
    key += is_plain_name(name) ? "." + name : ".\"" + name + '"';
  }
  return key;
}

QdrantJson condition_body(const Condition& condition) {
  const std::string key = key_of(condition);
  const QdrantJson& value = condition.value;
  if (value.is_null()) return {{"is_null", {{"key", key}}}};
  // `match` knows texts, truth values and integers, and 3 does not match 3.0; `range` compares as float64.
  if (value.is_number() && std::fabs(value.get<double>()) <= max_exact_integer) {
    return {{"key", key}, {"range", {{"gte", value}, {"lte", value}}}};
  }
  return {{"key", key}, {"match", {{"value", value}}}};
}

QdrantJson sparse_body(const SparseVector& vector) {
  return {{"indices", vector.indices}, {"values", vector.values}};
}

}  // namespace

std::string point_uuid(std::string_view sha256) {
  std::string uuid(sha256.substr(0, 32));
  if (uuid.size() < 32) uuid.resize(32, '0');
  constexpr std::string_view variants = "89ab";
  uuid[12] = '8';
  uuid[16] = variants[static_cast<unsigned char>(uuid[16]) % variants.size()];
  for (const std::size_t at : {20U, 16U, 12U, 8U}) uuid.insert(at, 1, '-');
  return uuid;
}

QdrantJson collection_body(const CollectionFacts& facts) {
  QdrantJson body{{"vectors", {{"dense", {{"size", facts.dimension}, {"distance", qdrant_name(facts.distance)}}}}}};
  if (facts.sparse_dimension != 0) body["sparse_vectors"] = {{"sparse", QdrantJson::object()}};
  return body;
}

QdrantJson point_body(const Point& point, bool has_sparse) {
  QdrantJson vectors{{"dense", point.vector}};
  if (has_sparse) vectors["sparse"] = sparse_body(point.sparse);
  return {
      {"id", point_uuid(point.id)},
      {"vector", std::move(vectors)},
      {"payload", {{"id", point.id}, {"text", storable_text(point.text)}, {"payload", storable_json(point.payload)}}}};
}

QdrantJson filter_body(const Filter& filter) {
  QdrantJson conditions = QdrantJson::array();
  for (const Condition& condition : filter) conditions.push_back(condition_body(condition));
  return {{"must", std::move(conditions)}};
}

QdrantJson query_body(const SearchRequest& request) {
  const bool is_sparse = request.vector.empty();
  QdrantJson body{{"query", is_sparse ? sparse_body(request.sparse) : QdrantJson(request.vector)},
                  {"using", is_sparse ? "sparse" : "dense"},
                  {"limit", request.count},
                  {"with_payload", true}};
  if (!request.filter.empty()) body["filter"] = filter_body(request.filter);
  if (request.is_exact) body["params"] = {{"exact", true}};
  return body;
}

std::vector<FoundPoint> found_points(const QdrantJson& answer, Similarity distance, std::string_view shown) {
  // Qdrant's scores of distances are the distances.
  const bool is_distance = distance == Similarity::euclidean || distance == Similarity::manhattan;
  std::vector<FoundPoint> found;
  try {
    for (const QdrantJson& one : answer.at("result").at("points")) {
      const double score = one.at("score").get<double>();
      const QdrantJson& payload = one.at("payload");
      found.push_back({.id = payload.at("id").get<std::string>(),
                       .score = is_distance ? -score : score,
                       .text = payload.at("text").get<std::string>(),
                       .payload = payload.at("payload")});
    }
  } catch (const QdrantJson::exception&) {
    throw Error(ErrorCode::network, fmt::format("'{}': the answer has points that gpux has not written", shown));
  }
  return found;
}

Error qdrant_error(int status, std::string_view body, std::string_view shown) {
  constexpr std::size_t max_shown = 300;
  const QdrantJson answer = stored_json(body);
  std::string reason = one_line(utf8_prefix(body, max_shown));
  if (answer.is_object() && answer.contains("status") && answer["status"].is_object()) {
    const QdrantJson& error = answer["status"].value("error", QdrantJson());
    if (error.is_string()) reason = one_line(utf8_prefix(error.get_ref<const std::string&>(), max_shown));
  }
  ErrorCode code = ErrorCode::network;
  if (status == 401 || status == 403) code = ErrorCode::permission;
  if (status == 400 || status == 404 || status == 409 || status == 422) code = ErrorCode::invalid_input;
  if (status == 507) code = ErrorCode::storage;
  const std::string_view remedy = code == ErrorCode::permission ? "; QDRANT_API_KEY has the key" : "";
  return Error(code, fmt::format("'{}': Qdrant answered {}: {}{}", shown, status, reason, remedy));
}

}  // namespace gpux::vector_store
