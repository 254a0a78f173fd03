#include "vector_store/qdrant/qdrant_store.h"

#include <utility>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "registry/http/client.h"
#include "registry/http/url.h"
#include "vector_store/qdrant/messages.h"

namespace gpux::vector_store {
namespace {

using Json = nlohmann::json;
using registry::Method;

// A quarter of the body that Qdrant takes by default.
constexpr std::size_t max_batch_bytes = std::size_t{8} << 20;
// A payload is a member of the payload of a point of a list of a result.
constexpr std::uint64_t max_answer_bytes = std::uint64_t{256} << 20;
constexpr int max_answer_depth = max_payload_depth + 8;

registry::ClientOptions client_options(const Cancellation& cancellation) {
  registry::ClientOptions options;
  options.cancellation = cancellation;
  options.connect_timeout = std::chrono::seconds(10);
  return options;
}

class QdrantStore final : public VectorStore {
 public:
  QdrantStore(StoreUrl url, const Cancellation& cancellation)
      : url_(std::move(url)),
        key_(url_.key.empty() ? environment_variable("QDRANT_API_KEY") : url_.key),
        client_(client_options(cancellation)) {
    (void)registry::parse_url(url_.address);
  }

  std::optional<CollectionFacts> facts() override;
  void create(const CollectionFacts& facts) override;
  void upsert(std::span<const Point> points) override;
  bool has(const std::string& id) override;
  std::uint64_t count() override;
  std::vector<FoundPoint> search(const SearchRequest& request) override;

  // Qdrant makes its index by itself.
  void finish() override {}

  [[nodiscard]] const std::string& shown() const noexcept override { return url_.shown; }

 private:
  struct Answer {
    int status = 0;
    Json json;
  };

  [[nodiscard]] static std::string path_of(std::string_view collection, std::string_view rest = {}) {
    return fmt::format("/collections/{}{}", registry::percent_encoded(collection), rest);
  }

  [[nodiscard]] std::string path(std::string_view rest = {}) const { return path_of(url_.collection, rest); }

  // Throws for an answer that is no success, but for the status `accepted`.
  Answer send(Method method, const std::string& path, const std::string& body, int accepted = 200);
  [[nodiscard]] bool exists(std::string_view collection);
  void write_facts(const CollectionFacts& facts);
  const CollectionFacts& known_facts();

  StoreUrl url_;
  std::string key_;
  registry::Client client_;
  std::optional<CollectionFacts> facts_;
};

QdrantStore::Answer QdrantStore::send(Method method, const std::string& path, const std::string& body, int accepted) {
  registry::Request request{.method = method, .url = url_.address + path};
  request.headers = {{"Accept", "application/json"}};
  if (!body.empty()) {
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = body;
  }
  if (!key_.empty()) request.headers.emplace_back("api-key", key_);
  request.max_redirects = 0;
  request.limit_body_bytes = max_answer_bytes;
  request.is_repeatable = true;
  request.retry = {.max_attempts = 2};
  registry::Response response;
  try {
    response = client_.send(request);
  } catch (const Error& error) {
    throw error.within(fmt::format("'{}'", url_.shown));
  }
  if (!response.is_success() && response.status != accepted)
    throw qdrant_error(response.status, response.body, url_.shown);
  Answer answer{.status = response.status, .json = stored_json(response.body, max_answer_depth)};
  if (answer.json.is_object()) return answer;
  throw Error(ErrorCode::network,
              fmt::format("'{}': the server's answer is no JSON object; is it Qdrant?", url_.shown));
}

bool QdrantStore::exists(std::string_view collection) {
  return send(Method::get, path_of(collection), {}, 404).status != 404;
}

std::optional<CollectionFacts> QdrantStore::facts() {
  if (facts_) return facts_;
  if (!exists(url_.collection)) return std::nullopt;
  const Json body{{"ids", Json::array({point_uuid(sha256_of(url_.collection))})}, {"with_payload", true}};
  const Answer answer = send(Method::post, path_of(qdrant_facts_collection, "/points"), body.dump(), 404);
  const Json points = answer.json.value("result", Json());
  if (answer.status == 404 || !points.is_array() || points.empty()) return std::nullopt;
  const Json& point = points.front();
  facts_ = facts_from_json(point.is_object() ? point.value("payload", Json()) : Json(), url_.shown);
  return facts_;
}

const CollectionFacts& QdrantStore::known_facts() {
  (void)facts();
  if (facts_) return *facts_;
  throw Error(ErrorCode::not_found,
              fmt::format("'{}': there is no collection '{}' of gpux", url_.shown, url_.collection));
}

void QdrantStore::write_facts(const CollectionFacts& facts) {
  if (!exists(qdrant_facts_collection)) {
    const Json body{{"vectors", {{"size", 1}, {"distance", "Dot"}}}};
    send(Method::put, path_of(qdrant_facts_collection), body.dump());
  }
  Json payload = facts_to_json(facts);
  payload["collection"] = url_.collection;
  const Json point{
      {"id", point_uuid(sha256_of(url_.collection))}, {"vector", Json::array({1.0})}, {"payload", std::move(payload)}};
  send(Method::put, path_of(qdrant_facts_collection, "/points?wait=true"),
       Json{{"points", Json::array({point})}}.dump());
}

void QdrantStore::create(const CollectionFacts& facts) {
  if (const auto stored = this->facts()) {
    accept_vectors(*stored, facts, url_.shown);
    return;
  }
  if (exists(url_.collection)) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}': the collection is there without facts of gpux: another program has made it, or a "
                            "call that was interrupted",
                            url_.shown));
  }
  // Of two processes that make it at the same time, one is refused (409): the facts are of the one that made it. They
  // come behind it, and were they before, those of the other could take their place.
  if (send(Method::put, path(), collection_body(facts).dump(), 409).status != 409) {
    write_facts(facts);
    facts_ = facts;
    return;
  }
  require_same_vectors(known_facts(), facts, url_.shown);
}

void QdrantStore::upsert(std::span<const Point> points) {
  const bool has_sparse = known_facts().sparse_dimension != 0;
  std::string batch;
  const auto send_batch = [&] {
    if (batch.empty()) return;
    send(Method::put, path("/points?wait=true"), fmt::format(R"({{"points": [{}]}})", batch));
    batch.clear();
  };
  for (const Point& point : points) {
    const std::string body = point_body(point, has_sparse).dump();
    if (!batch.empty() && batch.size() + body.size() > max_batch_bytes) send_batch();
    batch += (batch.empty() ? "" : ", ") + body;
  }
  send_batch();
}

bool QdrantStore::has(const std::string& id) {
  const Json body{{"ids", Json::array({point_uuid(id)})}, {"with_payload", false}};
  const Json points = send(Method::post, path("/points"), body.dump()).json.value("result", Json());
  return points.is_array() && !points.empty();
}

std::uint64_t QdrantStore::count() {
  const Json answer = send(Method::post, path("/points/count"), R"({"exact": true})").json;
  const Json result = answer.value("result", Json::object());
  const Json count = result.is_object() ? result.value("count", Json()) : Json();
  if (count.is_number_unsigned()) return count.get<std::uint64_t>();
  throw Error(ErrorCode::network, fmt::format("'{}': the answer has no number of points", url_.shown));
}

std::vector<FoundPoint> QdrantStore::search(const SearchRequest& request) {
  const Similarity distance = request.vector.empty() ? Similarity::dot : known_facts().distance;
  const Answer answer = send(Method::post, path("/points/query"), query_body(request).dump());
  return found_points(answer.json, distance, url_.shown);
}

}  // namespace

std::unique_ptr<VectorStore> open_qdrant(const StoreUrl& url, const Cancellation& cancellation) {
  return std::make_unique<QdrantStore>(url, cancellation);
}

}  // namespace gpux::vector_store
