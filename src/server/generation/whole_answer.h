#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_budget.h"
#include "server/generation/answer_sink.h"
#include "server/http/server.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// How the parts of answers are kept until they are rendered.
enum class AnswerParts : std::uint8_t {
  joined,    ///< one for each answer
  in_order,  ///< the parts of the only answer, joined where that changes no order
};

/// Answers that are sent together when the last one is complete. What they take meanwhile counts against the memory of
/// requests. Long ones are rendered by the readers: the thread that ends them generates the texts of others.
class WholeAnswer : public AnswerSink {
 public:
  using Render = std::function<http::Response(const std::vector<AnswerDelta>& parts, const AnswerUsage& usage)>;
  using Refuse = std::function<http::Response(const Error& error)>;

  /// `choices`: the number of answers; one where their parts are kept in order.
  WholeAnswer(std::shared_ptr<http::Exchange> exchange, std::size_t choices, RequestWork work, Render render,
              Refuse refuse, AnswerParts kept_as = AnswerParts::joined);

  void write(AnswerDelta delta) override;
  void finish(const AnswerUsage& usage) override;
  void fail(const Error& error) override;

 private:
  std::shared_ptr<http::Exchange> exchange_;
  std::vector<AnswerDelta> parts_;
  RequestWork work_;
  MemoryShare share_;
  Render render_;
  Refuse refuse_;
  AnswerParts kept_as_;
};

}  // namespace gpux::server
