#include "cli/systemd.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/home.h"
#include "base/unique_fd.h"

namespace gpux::cli {

void notify_systemd(std::string_view state) {
  const std::string path = environment_variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path.empty() || (path.front() != '/' && path.front() != '@') || path.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  // An abstract name begins with a zero byte and is as long as it says.
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                 length);
}

}  // namespace gpux::cli
