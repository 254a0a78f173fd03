#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "server/generation/answer_sink.h"
#include "server/http/server.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// Answers that are sent together when the last one is complete. What they take meanwhile counts against the memory of
/// requests. Long ones are rendered by the readers: the thread that ends them generates the texts of others.
class WholeAnswer : public AnswerSink {
 public:
  using Render = std::function<http::Response(const std::vector<AnswerDelta>& choices, const AnswerUsage& usage)>;
  using Refuse = std::function<http::Response(const Error& error)>;

  WholeAnswer(std::shared_ptr<http::Exchange> exchange, std::size_t choices, RequestWork work, Render render,
              Refuse refuse);

  void write(AnswerDelta delta) override;
  void finish(const AnswerUsage& usage) override;
  void fail(const Error& error) override;

 private:
  std::shared_ptr<http::Exchange> exchange_;
  std::vector<AnswerDelta> choices_;
  RequestWork work_;
  MemoryShare share_;
  Render render_;
  Refuse refuse_;
};

}  // namespace gpux::server
