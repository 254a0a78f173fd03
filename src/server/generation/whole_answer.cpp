#include "server/generation/whole_answer.h"

#include <utility>

#include "server/request_work.h"

namespace gpux::server {

WholeAnswer::WholeAnswer(std::shared_ptr<http::Exchange> exchange, std::size_t choices,
                         std::shared_ptr<MemoryBudget> memory, Render render, Refuse refuse)
    : exchange_(std::move(exchange)),
      choices_(choices),
      memory_(std::move(memory)),
      share_(memory_),
      render_(std::move(render)),
      refuse_(std::move(refuse)) {
  for (std::size_t i = 0; i < choices; ++i) choices_[i].choice = i;
}

void WholeAnswer::write(AnswerDelta delta) {
  // Once as it is, and once as JSON.
  grow_share(share_, memory_, 2 * (delta.bytes() - AnswerDelta{}.bytes()), "the answer");
  choices_.at(delta.choice).append(std::move(delta));
}

void WholeAnswer::finish(const AnswerUsage& usage) {
  http::Response response = render_(choices_, usage);
  share_.release();
  exchange_->respond(std::move(response));
}

void WholeAnswer::fail(const Error& error) {
  exchange_->respond(refuse_(error));
}

}  // namespace gpux::server
