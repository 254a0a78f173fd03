#include "base/write_fully.h"

#include <cerrno>

#include <unistd.h>

#include "base/durability.h"

namespace gpux {

int write_fully(int descriptor, std::span<const std::byte> content, std::uint64_t position) noexcept {
  if (const int error = report_write(descriptor); error != 0) return error;
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count =
        ::pwrite(descriptor, content.data() + done, content.size() - done, static_cast<off_t>(position + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace gpux
