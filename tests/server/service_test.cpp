// What a request causes in the server, seen from a transport that records instead of sending.
#include "server/service.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/files.h"
#include "image/recipe.h"
#include "server/black_png.h"
#include "server/generation/whole_answer.h"
#include "server/jobs/run_job.h"
#include "server/requests/request_readers.h"

namespace gpux::server {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

/// An exchange of which the answer is kept.
class RecordedExchange : public http::Exchange {
 public:
  RecordedExchange(std::string method, const std::string& path, const std::string& body,
                   const std::vector<std::pair<std::string, std::string>>& fields = {}) {
    request_.method = std::move(method);
    const std::size_t end = path.find('?');
    request_.target = path;
    request_.path = path.substr(0, end);
    if (end != std::string::npos) request_.query = path.substr(end + 1);
    request_.body = http::make_body(body);
    for (const auto& [name, value] : fields) request_.headers.add(name, value);
    request_.arrived = std::chrono::steady_clock::now();
  }

  [[nodiscard]] const http::Request& request() const noexcept override { return request_; }

  /// The client has proved to have a certificate with that name.
  void set_certificate(const std::string& name) {
    request_.certificate_name = std::make_shared<const std::string>(name);
  }

  void respond(http::Response response) override {
    {
      const std::lock_guard lock(mutex_);
      if (answer_) return;
      for (const http::Piece& piece : response.pieces) response.text += piece.text();
      answer_ = std::move(response);
      answered_by_ = std::this_thread::get_id();
    }
    changed_.notify_all();
  }

  void on_gone(std::function<void()> callback) override {
    {
      const std::lock_guard lock(mutex_);
      if (!has_left_) {
        on_gone_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  void start(http::Response) override {}

  Flow write(http::Piece) override { return Flow::gone; }

  void on_room(std::function<void()>) override {}

  void finish() override {}

  void leave() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      has_left_ = true;
      callback.swap(on_gone_);
    }
    if (callback) callback();
  }

  const http::Response& answer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.has_value(); });
    return *answer_;
  }

  [[nodiscard]] bool is_answered() const {
    const std::lock_guard lock(mutex_);
    return answer_.has_value();
  }

  [[nodiscard]] std::thread::id answered_by() const { return answered_by_; }

 private:
  http::Request request_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<http::Response> answer_;
  std::thread::id answered_by_;
  std::function<void()> on_gone_;
  bool has_left_ = false;
};

ModelParts load(const std::string& name, const std::string& file, const ServingOptions& serving) {
  LoadOptions options;
  options.provider = "cpu";
  Workers workers = load_workers(
      {}, options, false, [&](const LoadOptions& with) { return Runtime(std::string(GPUX_SOURCE_DIR) + file, with); });
  ModelParts model{.name = name, .version = "1", .session = {std::move(workers), serving}};
  if (name == "digits") {
    image::Recipe recipe;
    recipe.resize = image::Resize{{8, 8}};
    recipe.color = image::Color::gray;
    recipe.type = ElementType::float32;
    model.image_input = {"image", recipe, {}};
  }
  return model;
}

class RequestsOfAService : public testing::Test {
 protected:
  void serve(std::uint64_t memory = std::uint64_t{1} << 30, const ServingOptions& serving = {},
             const std::function<void(ServiceOptions&)>& change = nullptr) {
    serving_ = serving;
    repository_ = std::make_unique<ModelRepository>([this] {
      std::vector<ModelSource> sources;
      for (const auto& [name, file] :
           {std::pair("add", "/tests/models/add.onnx"), std::pair("digits", "/examples/digits/digits.onnx")}) {
        ModelSource source;
        source.name = name;
        source.version = "1";
        source.load = [this, name = std::string(name), file = std::string(file)] { return load(name, file, serving_); };
        sources.push_back(std::move(source));
      }
      return sources;
    });
    repository_->load_all();
    memory_ = std::make_shared<MemoryBudget>(memory);
    ServiceOptions options;
    options.memory = memory_;
    if (change) change(options);
    service_ = std::make_unique<Service>(*repository_, options);
  }

  std::shared_ptr<RecordedExchange> post(const std::string& path, const std::string& body,
                                         const std::vector<std::pair<std::string, std::string>>& fields = {}) {
    auto exchange = std::make_shared<RecordedExchange>("POST", path, body, fields);
    service_->handle(exchange);
    return exchange;
  }

  /// "hit" where the answer is of the cache.
  std::string cached(const std::string& path, const std::string& body,
                     const std::vector<std::pair<std::string, std::string>>& fields = {}) {
    const auto exchange = post(path, body, fields);
    EXPECT_EQ(exchange->answer().status, 200) << exchange->answer().text;
    return std::string(exchange->answer().headers["X-Gpux-Cache"]);
  }

  ServingOptions serving_;
  std::unique_ptr<ModelRepository> repository_;
  std::shared_ptr<MemoryBudget> memory_;
  std::unique_ptr<Service> service_;
};

std::string base64_of(const std::string& bytes) {
  return to_base64(std::as_bytes(std::span(bytes)));
}

std::string list_of(const std::string& item, std::size_t count) {
  std::string list = "[";
  for (std::size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + item;
  return list + "]";
}

TEST_F(RequestsOfAService, AnswersTheSameAgainFromTheCache) {
  const std::vector<ApiKey> keys{{"alice", "first-key-123"}, {"bob", "second-key-456"}};
  serve(std::uint64_t{1} << 30, {}, [&](ServiceOptions& options) {
    options.response_cache_bytes = 1 << 20;
    options.access = std::make_shared<Access>(AccessRules{.keys = ApiKeys(keys, {}), .limits = {}});
  });
  const std::string body = R"({"x": [[1, 2, 3]]})", path = "/models/add/predict";
  const std::vector<std::pair<std::string, std::string>> alice{{"X-API-Key", "first-key-123"}},
      bob{{"X-API-Key", "second-key-456"}};
  const auto first = post(path, body, alice);
  ASSERT_EQ(first->answer().status, 200);
  EXPECT_FALSE(first->answer().headers.find("X-Gpux-Cache"));
  const auto second = post(path, body, alice);
  EXPECT_EQ(second->answer().headers["X-Gpux-Cache"], "hit");
  EXPECT_EQ(second->answer().text, first->answer().text);
  for (const char* field : {"Content-Type", "X-Gpux-Verdict"}) {
    EXPECT_EQ(second->answer().headers[field], first->answer().headers[field]) << field;
  }
  // Its times would be those of another request, and its id.
  EXPECT_EQ(second->answer().headers.count("X-Request-Id"), 1U);
  EXPECT_FALSE(second->answer().headers.find("X-Inference-Time"));

  EXPECT_EQ(cached(path, body, bob), "") << "another key";
  EXPECT_EQ(cached(path, body, bob), "hit");
  EXPECT_EQ(cached(path, R"({"x": [[1, 2, 4]]})", alice), "") << "another input";
  EXPECT_EQ(cached(path + "?a=b", body, alice), "") << "another query";
  EXPECT_EQ(cached("/predict", body, alice), "") << "another route";
  EXPECT_EQ(post(path, R"({"x": "no"})", alice)->answer().status, 400);
  EXPECT_EQ(post(path, R"({"x": "no"})", alice)->answer().status, 400) << "no error is kept";

  // A model that is loaded again may be another one.
  std::promise<void> loaded;
  repository_->load("add", {}, [&](const std::optional<Error>& error) {
    EXPECT_FALSE(error);
    loaded.set_value();
  });
  loaded.get_future().wait();
  EXPECT_EQ(cached(path, body, alice), "");
  EXPECT_EQ(cached(path, body, alice), "hit");
  EXPECT_THAT(service_->metrics_page(), HasSubstr("gpux_response_cache_hits_total 3\n"));
}

TEST_F(RequestsOfAService, TheCacheStaysWithinItsMemory) {
  constexpr std::uint64_t bytes = 8 << 10;
  serve(std::uint64_t{1} << 30, {}, [](ServiceOptions& options) { options.response_cache_bytes = bytes; });
  const std::string path = "/models/add/predict";
  const auto body = [](int i) { return R"({"x": [[1, 2, )" + std::to_string(i) + "]]}"; };
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(cached(path, body(i)), "");
    EXPECT_EQ(cached(path, body(0)), "hit") << "the last used ones stay";
  }
  EXPECT_EQ(cached(path, body(99)), "hit");
  EXPECT_EQ(cached(path, body(1)), "");
  // Too large to be kept.
  std::string rows = "[[1, 2, 3]";
  for (int i = 0; i < 1000; ++i) rows += ", [1, 2, 3]";
  EXPECT_EQ(cached(path, R"({"x": )" + rows + "]}"), "");
  EXPECT_EQ(cached(path, R"({"x": )" + rows + "]}"), "");
  const Json metrics = Json::parse([&] {
    auto exchange = std::make_shared<RecordedExchange>(
        "GET", "/metrics", "", std::vector<std::pair<std::string, std::string>>{{"Accept", "application/json"}});
    service_->handle(exchange);
    return exchange->answer().text;
  }());
  EXPECT_LE(metrics.at("response_cache").at("bytes"), bytes);
  EXPECT_GT(metrics.at("response_cache").at("evicted"), 80);
}

TEST_F(RequestsOfAService, KeepsNothingUnlessAsked) {
  serve();
  const std::string body = R"({"x": [[1, 2, 3]]})";
  EXPECT_EQ(cached("/models/add/predict", body), "");
  EXPECT_EQ(cached("/models/add/predict", body), "");
}

TEST_F(RequestsOfAService, RefusesRequestsBeyondTheLimitsOfTheirKey) {
  const std::vector<ApiKey> keys{{"alice", "first-key-123"}, {"bob", "second-key-456"}};
  LimitRules limits;
  limits.each.requests_per_minute = 2;
  serve(std::uint64_t{1} << 30, {}, [&](ServiceOptions& options) {
    options.access = std::make_shared<Access>(AccessRules{.keys = ApiKeys(keys, {}), .limits = limits});
  });
  const auto admitted = [&](const char* method, const std::string& path, const char* key) {
    const RecordedExchange exchange(method, path, "", {{"X-API-Key", key}});
    return service_->admit(exchange.request()).refusal;
  };
  const std::string embeddings = "/v1/embeddings", infer = "/v2/models/add/infer";
  EXPECT_FALSE(admitted("POST", embeddings, "first-key-123"));
  EXPECT_FALSE(admitted("POST", infer, "first-key-123"));
  const auto refused = admitted("POST", embeddings, "first-key-123");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_GE(std::stoi(std::string(refused->headers["Retry-After"])), 1);
  const Json error = Json::parse(refused->text).at("error");
  EXPECT_EQ(error.at("type"), "rate_limit_error");
  EXPECT_EQ(error.at("code"), "rate_limit_exceeded");
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("'alice' may send 2 requests per minute"));
  // Also where a full queue is 503.
  EXPECT_EQ(admitted("POST", infer, "first-key-123")->status, 429);
  EXPECT_FALSE(admitted("GET", "/v1/models", "first-key-123")) << "no model is used";
  EXPECT_FALSE(admitted("POST", embeddings, "second-key-456"));
  const auto answered = post("/models/add/predict", R"({"x": [[1, 2, 3]]})", {{"X-API-Key", "second-key-456"}});
  EXPECT_EQ(answered->answer().headers["x-ratelimit-limit-requests"], "2");
  EXPECT_EQ(answered->answer().headers["x-ratelimit-remaining-requests"], "1");
  const std::string page = service_->metrics_page();
  EXPECT_THAT(page, HasSubstr("gpux_key_requests_total{key=\"alice\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("gpux_key_refused_total{key=\"alice\",limit=\"requests_per_minute\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("gpux_key_requests_in_flight{key=\"bob\"} 0\n"));
}

TEST_F(RequestsOfAService, ReadingTheMetricsForgetsNoClient) {
  LimitRules limits;
  limits.each.requests_per_minute = 1;
  serve(std::uint64_t{1} << 30, {}, [&](ServiceOptions& options) {
    options.access = std::make_shared<Access>(AccessRules{.keys = {}, .limits = limits});
  });
  const auto status = [&](const char* certificate) {
    RecordedExchange exchange("POST", "/v2/models/add/infer", "");
    exchange.set_certificate(certificate);
    const auto refused = service_->admit(exchange.request()).refusal;
    return refused ? refused->status : 200;
  };
  EXPECT_EQ(status("robot"), 200);
  EXPECT_THAT(service_->metrics_page(), HasSubstr("gpux_key_requests_total{key=\"cert:robot\"} 1\n"));
  EXPECT_EQ(status("robot"), 429);
  EXPECT_EQ(status("other"), 200);
}

TEST_F(RequestsOfAService, AListLongerThanTheQueueIsAnswered) {
  serve(std::uint64_t{1} << 30, {.max_queue = 2});
  const auto exchange = post("/models/add/predict", list_of(R"({"x": [[1, 2, 3]]})", 3000));
  ASSERT_EQ(exchange->answer().status, 200) << exchange->answer().text.substr(0, 200);
  EXPECT_EQ(Json::parse(exchange->answer().text).size(), 3000U);
  EXPECT_EQ(memory_->held_bytes(), 0U);
}

TEST_F(RequestsOfAService, AnItemThatIsWrongIsNamedAndEndsTheRest) {
  serve();
  std::string list = list_of(R"({"x": [[1, 2, 3]]})", 200);
  list.insert(list.size() - 1, R"(,{"x": "no"})");
  const auto exchange = post("/models/add/predict", list);
  EXPECT_EQ(exchange->answer().status, 400);
  EXPECT_THAT(exchange->answer().text, HasSubstr("item 200"));
  EXPECT_THAT(post("/models/add/predict", R"([{"x": 1}])")->answer().text, HasSubstr("item 0"));
}

TEST_F(RequestsOfAService, InstancesAreRowsOfABatch) {
  serve();
  const auto rows = post("/v1/models/add:predict", R"({"instances": [[1, 2, 3], {"x": [4, 5, 6]}]})");
  const auto items = post("/models/add/predict", R"([{"x": [[1, 2, 3]]}, {"x": [[4, 5, 6]]}])");
  ASSERT_EQ(rows->answer().status, 200) << rows->answer().text;
  Json predictions = Json::array();
  for (const Json& item : Json::parse(items->answer().text)) predictions.push_back(item.begin().value().at(0));
  EXPECT_EQ(Json::parse(rows->answer().text), (Json{{"predictions", predictions}}));
  const std::string image = R"({"b64": ")" + base64_of(black_png(1)) + R"("})";
  const auto digits =
      post("/v1/models/digits:predict", R"({"instances": [)" + image + R"(, {"image": )" + image + "}]}");
  ASSERT_EQ(digits->answer().status, 200) << digits->answer().text;
  const Json scores = Json::parse(digits->answer().text).at("predictions");
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores.at(0).size(), 10U);
  EXPECT_EQ(scores.at(0), scores.at(1));
  EXPECT_EQ(memory_->held_bytes(), 0U);
}

TEST_F(RequestsOfAService, InstancesThatDoNotFitAreNamed) {
  serve();

  struct Line {
    const char *body, *problem;
  };

  for (const Line& line : std::vector<Line>{
           {"[[1, 2, 3]]", "the body is no object"},
           {"{}", "instances is missing"},
           {R"({"instances": null})", "instances is missing"},
           {R"({"instances": []})", "instances is empty"},
           {R"({"instances": 1})", "instances is no list"},
           {R"({"instances": [[1, 2, 3], [1, "a", 3]]})", "instance 1: "},
           {R"({"instances": [{"y": [1, 2, 3]}]})", "instance 0: there is no input 'y'"},
           {R"({"inputs": {"x": [[1, 2, 3]]}})", "inputs: accepted is a list of rows, as 'instances'"},
           {R"({"instances": [[1, 2, 3]], "signature_name": "other"})", "signature_name: a model has one signature"},
           {R"({"instances": [[1, 2, 3]], "parameters": {"a": 1}})", "parameters: models have no parameters"},
       }) {
    SCOPED_TRACE(line.body);
    const auto refused = post("/v1/models/add:predict", line.body);
    EXPECT_EQ(refused->answer().status, 400);
    EXPECT_THAT(Json::parse(refused->answer().text).at("error").get<std::string>(), HasSubstr(line.problem));
  }
  const char* usual = R"({"instances": [[1, 2, 3]], "signature_name": "serving_default", "parameters": {}})";
  EXPECT_EQ(post("/v1/models/add:predict", usual)->answer().status, 200);
  EXPECT_EQ(post("/v1/models/none:predict", usual)->answer().status, 404);
}

TEST_F(RequestsOfAService, ManyImagesAreAnsweredInOrder) {
  constexpr std::size_t images = 2000;
  serve(std::uint64_t{4} << 20);
  std::string list = list_of(R"({"image":")" + base64_of(black_png(1)) + R"("})", images);
  const auto exchange = post("/models/digits/predict", list);
  ASSERT_EQ(exchange->answer().status, 200) << exchange->answer().text.substr(0, 200);
  EXPECT_EQ(Json::parse(exchange->answer().text).size(), images);
  list.insert(list.size() - 1, R"(,{"image":"none"})");
  EXPECT_THAT(post("/models/digits/predict", list)->answer().text, HasSubstr("item 2000: input 'image': cannot read"));
  // The answer does not wait for the runs of other items that have begun.
  for (int wait = 0; wait < 1000 && memory_->held_bytes() != 0; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(memory_->held_bytes(), 0U);
}

TEST_F(RequestsOfAService, ImagesThatComeToTooMuchAreRefusedUndecoded) {
  serve(std::uint64_t{8} << 20);
  // 32,000 tensors of 256 bytes, twice. The last of the images is none, which nobody gets to see.
  std::string list = list_of('"' + base64_of(black_png(1)) + '"', 32'000);
  list.insert(list.size() - 1, R"(,"none")");
  const auto exchange = post("/models/digits/predict", R"({"image": )" + list + "}");
  EXPECT_EQ(exchange->answer().status, 400);
  EXPECT_THAT(exchange->answer().text, HasSubstr("bytes of memory; accepted: at most 8388608"));
  EXPECT_EQ(memory_->held_bytes(), 0U);
}

TEST_F(RequestsOfAService, OnlySmallImagesAreDecodedByTheThreadThatReads) {
  serve();
  const std::string small = black_png(64), large = black_png(2000);
  ASSERT_LT(large.size(), std::size_t{64} << 10);
  EXPECT_EQ(post("/models/digits/predict", large, {{"Content-Type", "image/png"}})->answer().status, 200);
  // Without the readers nobody decodes what is large, in whatever form it comes.
  service_->stop_work();
  EXPECT_EQ(post("/models/digits/predict", small, {{"Content-Type", "image/png"}})->answer().status, 200);
  EXPECT_EQ(post("/models/digits/predict", large, {{"Content-Type", "image/png"}})->answer().status, 503);
  EXPECT_EQ(post("/models/digits/predict", R"({"image":")" + base64_of(large) + R"("})")->answer().status, 503);
  std::string length(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) length[i] = static_cast<char>(large.size() >> (8 * i));
  const std::string head = R"({"inputs":[{"name":"image","shape":[1],"datatype":"BYTES","parameters":)"
                           R"({"binary_data_size":)" +
                           std::to_string(large.size() + 4) + "}}]}";
  EXPECT_EQ(post("/v2/models/digits/infer", head + length + large,
                 {{"Inference-Header-Content-Length", std::to_string(head.size())}})
                ->answer()
                .status,
            503);
}

TEST_F(RequestsOfAService, WhatIsReadLaterEndsWithItsClientAndWithItsDeadline) {
  serve();
  const std::string body = list_of(R"({"x": [[1, 2, 3]]})", 6000);
  ASSERT_GT(body.size(), std::size_t{64} << 10);
  auto gone = std::make_shared<RecordedExchange>("POST", "/models/add/predict", body);
  gone->leave();
  service_->handle(gone);
  EXPECT_EQ(gone->answer().status, 503);
  EXPECT_EQ(repository_->find("add", "")->statistics().succeeded, 0U);
  const auto late = post("/models/add/predict", body, {{"X-Request-Timeout-Ms", "1"}});
  EXPECT_EQ(late->answer().status, 504);
  EXPECT_EQ(post("/models/add/predict", body)->answer().status, 200);
}

TEST_F(RequestsOfAService, EachAnswerCarriesTheDeadlineOfItsRequest) {
  using std::chrono::milliseconds;
  const std::string one = R"({"x": [[1, 2, 3]]})";
  const std::string infer = R"({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}])";

  struct Line {
    std::optional<milliseconds> of_model;
    std::string path, body;
    const char* of_request;  ///< null: none
    std::optional<milliseconds> expected;
  };

  for (const Line& line : std::vector<Line>{
           {{}, "/models/add/predict", one, nullptr, {}},
           {{}, "/models/add/predict", one, "50000", milliseconds(50'000)},
           {{}, "/models/add/predict", "not JSON", "50000", milliseconds(50'000)},
           {milliseconds(60'000), "/models/add/predict", one, nullptr, milliseconds(60'000)},
           {milliseconds(60'000), "/models/add/predict", one, "50000", milliseconds(50'000)},
           {milliseconds(60'000), "/models/add/predict", one, "70000", milliseconds(60'000)},
           {milliseconds(60'000), "/models/add/predict", list_of(one, 6000), nullptr, milliseconds(60'000)},
           {milliseconds(60'000), "/v2/models/add/infer", infer + "}", nullptr, milliseconds(60'000)},
           {milliseconds(60'000), "/v2/models/add/infer", infer + R"(, "parameters": {"timeout": 40000000}})", "50000",
            milliseconds(40'000)},
           {{}, "/v2/models/none/infer", infer + "}", "50000", milliseconds(50'000)},
       }) {
    SCOPED_TRACE(line.path + " " + line.body.substr(0, 200));
    serve(std::uint64_t{1} << 30, {.timeout = line.of_model});
    std::vector<std::pair<std::string, std::string>> fields;
    if (line.of_request != nullptr) fields.emplace_back("X-Request-Timeout-Ms", line.of_request);
    const auto exchange = post(line.path, line.body, fields);
    const auto deadline = exchange->answer().deadline;
    ASSERT_EQ(deadline.has_value(), line.expected.has_value());
    if (deadline) EXPECT_EQ(*deadline, exchange->request().arrived + *line.expected);
    service_.reset();
  }
}

TEST_F(RequestsOfAService, AListOfVeryManyItemsIsRefusedBeforeAnyRuns) {
  serve(std::uint64_t{32} << 20);
  const auto exchange = post("/models/add/predict", list_of("{}", 1'000'000));
  EXPECT_EQ(exchange->answer().status, 400);
  EXPECT_THAT(exchange->answer().text, HasSubstr("accepted: at most 33554432"));
  EXPECT_EQ(memory_->held_bytes(), 0U);
  EXPECT_EQ(repository_->find("add", "")->statistics().runs, 0U);
}

TEST_F(RequestsOfAService, AJobPreparesNothingMoreAfterItsClientHasLeft) {
  serve();
  const auto model = repository_->find("add", "");
  // After an error others may still be prepared: what they use lives as long as the job.
  const auto prepared = std::make_shared<std::atomic<int>>(0);
  std::promise<ErrorCode> over;
  RequestWork request;
  RunJob::Work work{.count = 1000,
                    .item = "item",
                    .prepare =
                        [model, prepared, stop = request.stop](std::size_t) mutable {
                          if (++*prepared == 5) stop.request_stop();
                          return synthetic_inputs(model->signature());
                        },
                    .take = [](std::size_t, NamedValues&&) { return std::uint64_t{0}; },
                    .request = request,
                    .run = {.arrived = std::chrono::steady_clock::now()}};
  const auto job =
      std::make_shared<RunJob>(session_of(model), std::move(work), [&](const std::optional<Error>& error, const auto&) {
        over.set_value(error ? error->code() : ErrorCode::internal);
      });
  job->start();
  EXPECT_EQ(over.get_future().get(), ErrorCode::interrupted);
  // Those that were being prepared side by side may have begun.
  EXPECT_LE(*prepared, 7);
}

TEST_F(RequestsOfAService, AJobIsRefusedWhatItsPreparationTakes) {
  serve();
  const auto model = repository_->find("add", "");
  RequestWork request;
  request.memory = std::make_shared<MemoryBudget>(2 * work_here_bytes);
  for (const std::uint64_t cost : {2 * work_here_bytes, 2 * work_here_bytes + 1}) {
    int prepared = 0;
    std::promise<std::string> over;
    RunJob::Work work{.count = 1,
                      .item = "item",
                      .prepare =
                          [&](std::size_t) {
                            ++prepared;
                            EXPECT_EQ(request.memory->held_bytes(), cost);
                            return synthetic_inputs(model->signature());
                          },
                      .cost = [cost](std::size_t) { return cost; },
                      .take = [](std::size_t, NamedValues&&) { return std::uint64_t{0}; },
                      .request = request,
                      .run = {.arrived = std::chrono::steady_clock::now()}};
    const auto job = std::make_shared<RunJob>(
        session_of(model), std::move(work),
        [&](const std::optional<Error>& error, const auto&) { over.set_value(error ? error->message() : ""); });
    job->start();
    const bool is_too_much = cost > request.memory->limit_bytes();
    EXPECT_THAT(over.get_future().get(), is_too_much ? HasSubstr("accepted: at most") : HasSubstr(""));
    EXPECT_EQ(prepared, is_too_much ? 0 : 1);
  }
  EXPECT_EQ(request.memory->held_bytes(), 0U);
}

// The thread that generates the texts of all only hands a long answer over.
TEST(WholeAnswers, AreRenderedByTheReadersWhereTheyAreLong) {
  RequestReaders readers({.threads = 1});
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{1} << 20U}) {
    const auto exchange = std::make_shared<RecordedExchange>("POST", "/v1/completions", "");
    const auto memory = std::make_shared<MemoryBudget>(std::uint64_t{1} << 30U);
    RequestWork work;
    work.readers = &readers;
    work.memory = memory;
    const auto render = [](const std::vector<AnswerDelta>& choices, const AnswerUsage& usage) {
      EXPECT_EQ(usage.generated_tokens, 7);
      return http::Response::json(200, choices.front().text);
    };
    const auto refuse = [](const Error& error) { return http::Response::json(500, error.message()); };
    WholeAnswer answer(exchange, 1, work, render, refuse);
    AnswerDelta delta;
    delta.text = std::string(bytes, 'a');
    answer.write(std::move(delta));
    EXPECT_GE(memory->held_bytes(), 2 * bytes);
    answer.finish({.generated_tokens = 7});
    EXPECT_EQ(exchange->answer().text.size(), bytes);
    EXPECT_EQ(exchange->answered_by() == std::this_thread::get_id(), bytes == 100) << bytes;
    EXPECT_EQ(memory->held_bytes(), 0);
  }
}

TEST(WholeAnswers, AreRefusedWhereTheServerEnds) {
  RequestReaders readers({.threads = 1});
  readers.stop();
  const auto exchange = std::make_shared<RecordedExchange>("POST", "/v1/completions", "");
  RequestWork work;
  work.readers = &readers;
  WholeAnswer answer(
      exchange, 1, work, [](const auto&, const AnswerUsage&) { return http::Response::json(200, "too late"); },
      [](const Error& error) { return http::Response::json(503, error.message()); });
  AnswerDelta delta;
  delta.text = std::string(1 << 20U, 'a');
  answer.write(std::move(delta));
  EXPECT_THROW(answer.finish({}), Error);
}

TEST_F(RequestsOfAService, AJobEndsWhereItsAnswersTakeTooMuch) {
  serve();
  const auto model = repository_->find("add", "");
  RequestWork request;
  request.memory = std::make_shared<MemoryBudget>(1000);
  std::promise<std::optional<Error>> over;
  RunJob::Work work{.count = 1000,
                    .item = "item",
                    .prepare = [model](std::size_t) { return synthetic_inputs(model->signature()); },
                    .take = [](std::size_t, NamedValues&&) { return std::uint64_t{90}; },
                    .request = request,
                    .run = {.arrived = std::chrono::steady_clock::now()}};
  const auto job =
      std::make_shared<RunJob>(session_of(model), std::move(work), [&](const std::optional<Error>& error, const auto&) {
        over.set_value(error ? std::optional(Error(error->code(), error->message())) : std::nullopt);
      });
  job->start();
  const auto error = over.get_future().get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_input);
  EXPECT_THAT(error->message(), HasSubstr("accepted: at most 1000"));
}

TEST_F(RequestsOfAService, AJobAddsUpTheTimesOfItsRuns) {
  serve();
  const auto model = repository_->find("add", "");
  std::promise<RunJob::Times> over;
  RunJob::Work work{.count = 20,
                    .item = "item",
                    .prepare = [model](std::size_t) { return synthetic_inputs(model->signature()); },
                    .take = [](std::size_t, NamedValues&&) { return std::uint64_t{0}; },
                    .request = {},
                    .run = {.arrived = std::chrono::steady_clock::now()}};
  const auto job =
      std::make_shared<RunJob>(session_of(model), std::move(work),
                               [&](const std::optional<Error>&, const RunJob::Times& times) { over.set_value(times); });
  job->start();
  const RunJob::Times times = over.get_future().get();
  EXPECT_GT(times.slowest.compute.count(), 0);
  EXPECT_GT(times.compute, times.slowest.compute);
  EXPECT_LE(times.compute, 20 * times.slowest.compute);
  EXPECT_GE(times.queue, times.slowest.queue);
}

TEST_F(RequestsOfAService, AnExceptionOfARunIsTheErrorOfItsRequest) {
  serve();
  const auto model = repository_->find("add", "");
  std::promise<ErrorCode> over;
  RunJob::Work work{.count = 3,
                    .item = "item",
                    .prepare = [model](std::size_t) { return synthetic_inputs(model->signature()); },
                    .take = [](std::size_t, NamedValues&&) -> std::uint64_t { throw std::bad_alloc(); },
                    .request = {},
                    .run = {.arrived = std::chrono::steady_clock::now()}};
  const auto job =
      std::make_shared<RunJob>(session_of(model), std::move(work), [&](const std::optional<Error>& error, const auto&) {
        over.set_value(error ? error->code() : ErrorCode::internal);
      });
  job->start();
  EXPECT_EQ(over.get_future().get(), ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace gpux::server
