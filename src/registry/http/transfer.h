#pragma once

#include <memory>

#include "registry/http/client.h"
#include "registry/http/url.h"

namespace gpux::registry {

/// A handle of libcurl with its open connections. One transfer at a time.
class Connection {
 public:
  /// Error network where libcurl is missing.
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends `request` to `url`, once, without following a redirect. `with_authorization`: whether it may see the secret.
  /// `received` becomes true when on_body was given bytes. Errors as Client::send().
  Response transfer(const Request& request, Method method, const Url& url, bool with_authorization,
                    const ClientOptions& options, bool& received);

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

/// Whether the status tells the client to go to another address.
bool is_redirect(int status) noexcept;

}  // namespace gpux::registry
