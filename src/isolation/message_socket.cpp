#include "isolation/message_socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux::isolation {
namespace {

[[noreturn]] void fail(const char* what, int error) {
  throw Error(ErrorCode::resource_exhausted,
              fmt::format("cannot create {} for a worker process: {}", what, std::strerror(error)));
}

/// Room for the descriptors of a message.
struct alignas(cmsghdr) DescriptorRoom {
  std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> bytes{};
};

void take_descriptors(msghdr& header, ReceivedMessage& message) noexcept {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < std::min(count, max_descriptors); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      message.descriptors.at(i).reset(descriptor);
    }
  }
}

}  // namespace

std::pair<UniqueFd, UniqueFd> make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("sockets", errno);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

SendFailure send_failure(int error_number) noexcept {
  switch (error_number) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case ETOOMANYREFS:
      return SendFailure::no_room;
    default:
      return SendFailure::closed;
  }
}

bool send_message(int socket, std::span<const std::byte> message, std::span<const int> descriptors, bool wait) {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  DescriptorRoom room;
  if (!descriptors.empty()) {
    const std::size_t size = descriptors.size_bytes();
    header.msg_control = room.bytes.data();
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(control), descriptors.data(), size);
  }
  const auto until = std::chrono::steady_clock::now() + send_patience;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    const ssize_t sent = ::sendmsg(socket, &header, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    if (sent >= 0) return sent == static_cast<ssize_t>(message.size());
    const int error = errno;
    if (error == EINTR) continue;
    if (!wait || send_failure(error) == SendFailure::closed) return false;
    if (std::chrono::steady_clock::now() >= until) {
      throw Error(
          ErrorCode::resource_exhausted,
          fmt::format("cannot send a message between this process and a worker process: {}", std::strerror(error)));
    }
    std::this_thread::sleep_for(pause);
  }
}

bool receive_message(int socket, ReceivedMessage& message) noexcept {
  for (UniqueFd& descriptor : message.descriptors) descriptor.reset();
  iovec part{message.bytes.data(), message.bytes.size()};
  DescriptorRoom room;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room.bytes.data();
  header.msg_controllen = room.bytes.size();
  ssize_t received = 0;
  do received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received <= 0) return false;
  message.size = static_cast<std::size_t>(received);
  take_descriptors(header, message);
  return true;
}

UniqueFd file_of_text(const std::string& text) {
  UniqueFd file(::memfd_create("gpux-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("a file in memory", errno);
  const int error = write_fully(file.get(), std::as_bytes(std::span(text)), 0);
  if (error != 0) fail("a file in memory", error);
  // No limit of the worker counts what it would write there.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    fail("a file in memory that is not changed", errno);
  }
  return file;
}

std::string text_of_file(int file) {
  struct stat status {};

  if (file < 0 || ::fstat(file, &status) != 0) {
    throw Error(ErrorCode::internal, "a worker process got a file that cannot be read");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

bool send_text(int socket, std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += max_message_bytes) {
    const std::string_view part = text.substr(at, max_message_bytes);
    if (!send_message(socket, std::as_bytes(std::span(part)))) return false;
  }
  return true;
}

std::optional<std::string> receive_text(int socket, std::uint64_t size, const std::function<void()>& wait) {
  constexpr std::uint64_t max_size = std::uint64_t{64} << 20;
  if (size > max_size) throw Error(ErrorCode::internal, "a worker process sent a report of more than 64 MiB");
  std::string text;
  ReceivedMessage message;
  while (text.size() < size) {
    wait();
    if (!receive_message(socket, message)) return std::nullopt;
    if (message.size > size - text.size()) throw Error(ErrorCode::internal, "a worker process sent more than a report");
    text += message.text_after(0);
  }
  return text;
}

}  // namespace gpux::isolation
