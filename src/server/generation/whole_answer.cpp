#include "server/generation/whole_answer.h"

#include <utility>

#include "server/requests/request_readers.h"

namespace gpux::server {
namespace {

// Less than this (as it is, and as JSON) takes no millisecond to render.
constexpr std::uint64_t render_here_bytes = 64 << 10;

}  // namespace

WholeAnswer::WholeAnswer(std::shared_ptr<http::Exchange> exchange, std::size_t choices, RequestWork work, Render render,
                         Refuse refuse, AnswerParts kept_as)
    : exchange_(std::move(exchange)),
      parts_(kept_as == AnswerParts::joined ? choices : 0),
      work_(std::move(work)),
      share_(work_.memory),
      render_(std::move(render)),
      refuse_(std::move(refuse)),
      kept_as_(kept_as) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].choice = i;
}

void WholeAnswer::write(AnswerDelta delta) {
  // Once as it is, and once as JSON.
  grow_share(share_, work_.memory, 2 * (delta.bytes() - AnswerDelta{}.bytes()), "the answer");
  if (kept_as_ == AnswerParts::joined) {
    parts_.at(delta.choice).append(std::move(delta));
  } else if (!parts_.empty() && parts_.back().can_append(delta)) {
    parts_.back().append(std::move(delta));
  } else {
    grow_share(share_, work_.memory, AnswerDelta{}.bytes(), "the answer");
    parts_.push_back(std::move(delta));
  }
}

void WholeAnswer::finish(const AnswerUsage& usage) {
  const std::uint64_t bytes = share_.bytes();
  const auto share = std::make_shared<MemoryShare>(std::move(share_));
  auto parts = std::make_shared<std::vector<AnswerDelta>>(std::move(parts_));
  auto respond = [exchange = exchange_, render = render_, share, parts = std::move(parts), usage] {
    http::Response response = render(*parts, usage);
    share->release();
    exchange->respond(std::move(response));
    return false;
  };
  if (work_.readers == nullptr || bytes <= render_here_bytes) {
    (void)respond();
    return;
  }
  work_.readers->post(
      {.cancellation = {},
       .cost = bytes,
       .unit = std::move(respond),
       .failed = [exchange = exchange_, refuse = refuse_](const Error& error) { exchange->respond(refuse(error)); },
       .is_admitted = true});
}

void WholeAnswer::fail(const Error& error) {
  exchange_->respond(refuse_(error));
}

}  // namespace gpux::server
