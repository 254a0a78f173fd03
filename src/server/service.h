#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "server/browser_access.h"
#include "server/grpc_counts.h"
#include "server/http/server.h"
#include "server/models/model_repository.h"
#include "server/rendered_page.h"
#include "server/request_readers.h"
#include "server/text_ability.h"
#include "server/time_limits.h"

namespace gpux::server {

struct GenerationPlan;
class StreamedAnswer;

struct ServiceOptions {
  std::string default_model;                      ///< for routes without a name; empty: the only one that fits
  std::vector<std::string> api_keys;              ///< empty: none is asked for
  BrowserAccess browser_access;                   ///< of requests over TCP
  std::chrono::milliseconds probe_timeout{2000};  ///< a health probe of the device takes at most this
  std::chrono::milliseconds probe_after{5000};    ///< a request that succeeded this lately stands for a probe
  bool log_requests = false;                      ///< one line of the log for each
  std::uint64_t read_here_bytes = 64 << 10;       ///< longer JSON is not read on the thread that calls handle()
  std::uint64_t tokenize_here_bytes = 2 << 10;    ///< the same of bodies with texts
  unsigned reading_threads = 2;                   ///< for those, at most
  std::size_t max_reading = 1024;                 ///< requests that may wait for them; beyond: refused
  std::chrono::milliseconds keep_alive{10000};    ///< a client that waits for text gets a sign of life this often
  /// For what requests hold while they are prepared: that of the transports. Null: no limit.
  std::shared_ptr<MemoryBudget> memory;
};

/// What a route is for, as /openapi.json and the tests see it.
struct RouteInfo {
  std::string_view method;
  std::string_view path;  ///< "/v2/models/{name}/infer"
  std::string_view summary;
  bool needs_key = true;  ///< where keys are set
};

/// All protocols over HTTP: takes a request apart, hands it to the model's queue, writes the answer.
/// Every answer carries X-Request-Id, the client's own or a new one, and continues the client's W3C trace context.
class Service {
 public:
  /// The repository must outlive the service and the server that calls it.
  Service(ModelRepository& repository, ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Thread-safe; does not wait for the model.
  void handle(const std::shared_ptr<http::Exchange>& exchange);

  /// Refuses before the body is read what a page of a stranger may have sent, lacks a key, has no route, or has a body
  /// of another type than the route reads. Routes without a key, and those that read no body, accept one of a few
  /// kilobytes. OPTIONS is answered here, with what a browser asks before it sends a request of a page.
  [[nodiscard]] http::Admitted admit(const http::Request& request) const;

  /// Ends what is still read and prepared: each at its next unit, with interrupted. After a drain. From any thread.
  void stop_work() {
    is_stopped_ = true;
    readers_.stop();
  }

  /// Whether new traffic should come; false from the moment a drain begins.
  void set_ready(bool ready) noexcept { ready_ = ready; }

  [[nodiscard]] bool ready() const noexcept { return ready_; }

  /// Where /metrics gets the transport's counters.
  void set_counters(std::function<http::Counters()> counters) { counters_ = std::move(counters); }

  /// Those of gRPC, if it is served. Before the first request.
  void set_grpc_counts(std::shared_ptr<const GrpcCounts> counts) { grpc_counts_ = std::move(counts); }

  [[nodiscard]] static std::span<const RouteInfo> routes() noexcept;

 private:
  struct Call;
  struct Match;
  struct Route;
  static const Route routes_[];
  /// Why admit() refuses a request; none: it does not.
  [[nodiscard]] std::optional<http::Response> refusal(const http::Request& request, const Match& match) const;
  [[nodiscard]] http::Response preflight_answer(const http::Request& request, const Match& match) const;
  using ModelHandler = std::function<void(const Call&, const std::shared_ptr<ServedModel>&)>;

  void dispatch(const Call& call, const Route* route);
  /// Has the readers do it in units, and ends it when the client leaves or the deadline passes.
  void do_later(const Call& call, std::uint64_t cost, std::function<bool()> unit);
  /// Does the units here where that takes little.
  void do_units(const Call& call, std::uint64_t cost, std::function<bool()> unit);
  /// By when a request that names its model or none has to be answered, as far as it can be told before it is read.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> latest_answer(const Call& call) const;
  [[nodiscard]] static Match match(const http::Request& request);
  [[nodiscard]] std::string name_for(const Call& call) const;
  void with_model(const Call& call, ModelHandler handler);
  /// The same with a model that is able to; where none is named, the only one.
  void with_able(const Call& call, TextAbility ability, ModelHandler handler);

  /// Turns the prompts into tokens, here or by the readers, and generates the answers.
  void generate(const Call& call, const std::shared_ptr<ServedModel>& model, GenerationPlan plan);
  void start_texts(const Call& call, const std::shared_ptr<ServedModel>& model, const GenerationPlan& plan,
                   std::vector<std::vector<std::uint32_t>> prompts);
  /// Gives the client signs of life for as long as it waits.
  void keep_alive(const std::shared_ptr<StreamedAnswer>& answer);

  void predict(const Call& call);
  void health(const Call& call);
  void live(const Call& call);
  void ready(const Call& call);
  void info(const Call& call);
  void list(const Call& call);
  void metrics(const Call& call);
  void openapi(const Call& call);
  void docs(const Call& call);
  void open_inference_metadata(const Call& call);
  void open_inference_model(const Call& call);
  void open_inference_config(const Call& call);
  void open_inference_ready(const Call& call);
  void open_inference_infer(const Call& call);
  void open_inference_statistics(const Call& call);
  void openai_embeddings(const Call& call);
  void openai_completions(const Call& call);
  void openai_chat(const Call& call);
  void ollama_chat(const Call& call);
  void ollama_generate(const Call& call);
  /// Also /api/embeddings, of one text.
  void ollama_embed(const Call& call);
  void ollama_tags(const Call& call);
  void ollama_ps(const Call& call);
  void ollama_show(const Call& call);
  void ollama_version(const Call& call);
  void ollama_alive(const Call& call);
  void openai_models(const Call& call);
  void openai_model(const Call& call);
  void embed(const Call& call);
  void embed_all(const Call& call);
  void embed_sparse(const Call& call);
  void rerank(const Call& call);
  /// similarity() where the body asks for it; else whatever of embed(), rerank() and classification the model can do.
  void texts_by_ability(const Call& call);
  void similarity(const Call& call);
  void tokenize(const Call& call);
  void decode(const Call& call);
  void repository_index(const Call& call);
  void repository_load(const Call& call);
  void repository_unload(const Call& call);

  ModelRepository& repository_;
  ServiceOptions options_;
  std::function<http::Counters()> counters_;
  std::shared_ptr<const GrpcCounts> grpc_counts_;
  std::atomic<bool> ready_ = true;
  std::atomic<bool> is_stopped_ = false;
  RenderedPage metrics_text_, metrics_json_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::chrono::system_clock::time_point born_ = std::chrono::system_clock::now();
  TimeLimits limits_;
  RequestReaders readers_;  // last: its tasks use the rest
};

}  // namespace gpux::server
