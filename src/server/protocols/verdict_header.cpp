#include "server/protocols/verdict_header.h"

#include <string>
#include <utility>

#include "server/http/completed_exchange.h"

namespace gpux::server {
namespace {

class WithVerdict : public http::CompletedExchange {
 public:
  WithVerdict(std::shared_ptr<http::Exchange> inner, std::shared_ptr<const ServedModel> model)
      : CompletedExchange(std::move(inner)), model_(std::move(model)) {}

 private:
  // Of a refusal nothing ran.
  void complete(http::Response& response) const override {
    const std::string& verdict = model_->ran_on().header;
    if (response.status < 300 && !verdict.empty()) response.headers.add("X-Gpux-Verdict", verdict);
  }

  std::shared_ptr<const ServedModel> model_;
};

}  // namespace

std::shared_ptr<http::Exchange> with_verdict(std::shared_ptr<http::Exchange> exchange,
                                             const std::shared_ptr<const ServedModel>& model) {
  return std::make_shared<WithVerdict>(std::move(exchange), model);
}

}  // namespace gpux::server
