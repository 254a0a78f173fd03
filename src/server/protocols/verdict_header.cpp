#include "server/protocols/verdict_header.h"

#include <utility>

namespace gpux::server {
namespace {

class WithVerdict : public http::Exchange {
 public:
  WithVerdict(std::shared_ptr<http::Exchange> inner, std::shared_ptr<const ServedModel> model)
      : inner_(std::move(inner)), model_(std::move(model)) {}

  [[nodiscard]] const http::Request& request() const noexcept override { return inner_->request(); }

  void respond(http::Response response) override {
    complete(response);
    inner_->respond(std::move(response));
  }

  void on_gone(std::function<void()> callback) override { inner_->on_gone(std::move(callback)); }

  void start(http::Response head) override {
    complete(head);
    inner_->start(std::move(head));
  }

  Flow write(http::Piece piece) override { return inner_->write(std::move(piece)); }

  void on_room(std::function<void()> callback) override { inner_->on_room(std::move(callback)); }

  void finish() override { inner_->finish(); }

 private:
  // Of a refusal nothing ran.
  void complete(http::Response& response) const {
    const std::string& verdict = model_->ran_on().header;
    if (response.status < 300 && !verdict.empty()) response.headers.add("X-Gpux-Verdict", verdict);
  }

  std::shared_ptr<http::Exchange> inner_;
  std::shared_ptr<const ServedModel> model_;
};

}  // namespace

std::shared_ptr<http::Exchange> with_verdict(std::shared_ptr<http::Exchange> exchange,
                                             const std::shared_ptr<const ServedModel>& model) {
  return std::make_shared<WithVerdict>(std::move(exchange), model);
}

}  // namespace gpux::server
