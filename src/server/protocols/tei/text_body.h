#pragma once

#include <memory>
#include <string>

#include "server/http/message.h"
#include "server/protocols/plain_text.h"
#include "server/requests/request_work.h"

namespace gpux::server::tei {

/// The request as `read` reads JSON, or of a text as it is.
template <typename Texts, typename Read>
std::shared_ptr<Texts> read_texts(const http::Request& request, const RequestWork& work, const Read& read) {
  if (is_plain_text(request)) return std::make_shared<Texts>(Texts{.inputs = {std::string(read_plain_text(request))}});
  return std::make_shared<Texts>(read(request.body.text(), work));
}

}  // namespace gpux::server::tei
