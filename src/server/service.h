#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/server.h"
#include "server/served_model.h"

namespace gpux::server {

struct ServiceOptions {
  std::string default_model;                      ///< for routes without a name; empty: the only model
  std::vector<std::string> api_keys;              ///< empty: none is asked for
  std::chrono::milliseconds probe_timeout{2000};  ///< a health probe of the device takes at most this
  std::chrono::milliseconds probe_after{5000};    ///< a request that succeeded this lately stands for a probe
};

/// What a route is for, as /openapi.json and the tests see it.
struct RouteInfo {
  std::string_view method;
  std::string_view path;  ///< "/v2/models/{name}/infer"
  std::string_view summary;
  bool needs_key = true;  ///< where keys are set
};

/// All protocols over HTTP: takes a request apart, hands it to the model's queue, writes the answer.
class Service {
 public:
  Service(std::vector<std::shared_ptr<ServedModel>> models, ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Thread-safe; does not wait for the model.
  void handle(const std::shared_ptr<http::Exchange>& exchange);

  /// Whether new traffic should come; false from the moment a drain begins.
  void set_ready(bool ready) noexcept { ready_ = ready; }

  /// Where /metrics gets the transport's counters.
  void set_counters(std::function<http::Counters()> counters) { counters_ = std::move(counters); }

  [[nodiscard]] static std::span<const RouteInfo> routes() noexcept;

 private:
  struct Route;
  struct Call;
  static const Route routes_[];

  void dispatch(const std::shared_ptr<http::Exchange>& exchange, const std::vector<std::string>& segments);
  [[nodiscard]] bool has_key(const http::Request& request) const;
  [[nodiscard]] const std::shared_ptr<ServedModel>& model_for(const Call& call) const;

  void predict(const Call& call);
  void health(const Call& call);
  void live(const Call& call);
  void ready(const Call& call);
  void info(const Call& call);
  void list(const Call& call);
  void metrics(const Call& call);
  void open_inference_metadata(const Call& call);
  void open_inference_model(const Call& call);
  void open_inference_ready(const Call& call);
  void open_inference_infer(const Call& call);
  void open_inference_statistics(const Call& call);

  std::vector<std::shared_ptr<ServedModel>> models_;
  ServiceOptions options_;
  std::function<http::Counters()> counters_;
  std::atomic<bool> ready_ = true;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace gpux::server
