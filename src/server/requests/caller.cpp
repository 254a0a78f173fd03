#include "server/requests/caller.h"

#include <algorithm>

namespace gpux::server {
namespace {

// Where nothing can be read, clients that differ would be one.
bool is_usable_name(std::string_view name) {
  return !name.empty() &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

Caller caller_of(const ApiKeys& keys, const Credentials& sent) {
  Caller caller;
  caller.address = std::string(sent.peer.substr(0, sent.peer.rfind(':')));
  if (const KeyHolder* holder = keys.find(sent.authorization, sent.x_api_key)) {
    caller.key = holder->name;
  } else if (sent.certificate_name && is_usable_name(*sent.certificate_name)) {
    caller.key = std::string(certificate_prefix) + std::string(*sent.certificate_name);
  }
  return caller;
}

bool is_known(const ApiKeys& keys, const Credentials& sent) {
  return sent.certificate_name || keys.find(sent.authorization, sent.x_api_key) != nullptr;
}

bool may_change_models(const ApiKeys& keys, const Credentials& sent) {
  if (const KeyHolder* holder = keys.find(sent.authorization, sent.x_api_key)) {
    return holder->is_admin || !keys.has_admin_keys();
  }
  return sent.certificate_name && !keys.has_admin_keys();
}

}  // namespace gpux::server
