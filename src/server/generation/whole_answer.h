#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "server/generation/answer_sink.h"
#include "server/http/server.h"

namespace gpux::server {

/// Answers that are sent together when the last one is complete. What they take meanwhile counts against the memory of
/// requests.
class WholeAnswer : public AnswerSink {
 public:
  using Render = std::function<http::Response(const std::vector<AnswerDelta>& choices, const AnswerUsage& usage)>;
  using Refuse = std::function<http::Response(const Error& error)>;

  WholeAnswer(std::shared_ptr<http::Exchange> exchange, std::size_t choices, std::shared_ptr<MemoryBudget> memory,
              Render render, Refuse refuse);

  void write(AnswerDelta delta) override;
  void finish(const AnswerUsage& usage) override;
  void fail(const Error& error) override;

 private:
  std::shared_ptr<http::Exchange> exchange_;
  std::vector<AnswerDelta> choices_;
  std::shared_ptr<MemoryBudget> memory_;
  MemoryShare share_;
  Render render_;
  Refuse refuse_;
};

}  // namespace gpux::server
