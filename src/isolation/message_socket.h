#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"
#include "base/utf8_prefix.h"
#include "isolation/value_encoding.h"

/// Messages between a process and its worker, over sockets that keep the boundaries of messages. Both ends are the same
/// program on the same machine.
namespace gpux::isolation {

inline constexpr std::size_t max_descriptors = 2;
inline constexpr std::size_t max_message_bytes = 4096;
inline constexpr std::size_t max_output_blocks = 4;  ///< maximum number of output blocks of one channel

/// Two ends that are connected. Error resource_exhausted.
std::pair<UniqueFd, UniqueFd> make_socket_pair();

/// What an error of sendmsg() means.
enum class SendFailure : std::uint8_t {
  closed,   ///< nobody receives it any more
  no_room,  ///< the system has no memory for it now, or too many descriptors are on their way
};

/// Pure.
SendFailure send_failure(int error_number) noexcept;

/// How long send_message() tries again where the system has no room.
inline constexpr std::chrono::seconds send_patience{2};

/// False if the other end is closed, or if `wait` is false and there is no room for the message.
/// Error resource_exhausted if `wait` is true and there was no room for send_patience: the other end is as it was.
[[nodiscard]] bool send_message(int socket, std::span<const std::byte> message, std::span<const int> descriptors = {},
                                bool wait = true);

template <typename Message>
[[nodiscard]] bool send_message(int socket, const Message& message, std::span<const int> descriptors = {},
                                bool wait = true) {
  return send_message(socket, std::as_bytes(std::span(&message, 1)), descriptors, wait);
}

struct ReceivedMessage {
  std::array<std::byte, max_message_bytes> bytes{};  // the first `size` are the message
  std::size_t size = 0;
  std::array<UniqueFd, max_descriptors> descriptors;

  /// The message as a structure at its beginning; null if it is shorter.
  template <typename Message>
  [[nodiscard]] std::optional<Message> as() const noexcept {
    if (size < sizeof(Message)) return std::nullopt;
    Message message;
    std::memcpy(&message, bytes.data(), sizeof message);
    return message;
  }

  /// What follows a structure at its beginning.
  [[nodiscard]] std::string text_after(std::size_t begin) const {
    if (size <= begin) return {};
    return {reinterpret_cast<const char*>(bytes.data()) + begin, size - begin};
  }
};

/// Waits for a message. False if the other end is closed.
[[nodiscard]] bool receive_message(int socket, ReceivedMessage& message) noexcept;

/// The number of none: they begin with 1.
inline constexpr std::uint64_t no_run = 0;

/// A run of the model, or a call of the service beside it. The values are in the input block, behind the mark of
/// run_mark.h.
struct RunRequest {
  std::uint64_t run = 0;  ///< the number of the run
  ValuesPlace values;
  std::uint32_t slot = 0;                              ///< index of the output block
  std::uint8_t has_new_input = 0, has_new_output = 0;  ///< descriptors that come with it, in this order
  std::uint8_t is_call = 0;                            ///< of the service: RemoteSession::call()
};

/// The end of a run: values in the output block, or an error, whose message follows. Or, before it, a wish for a larger
/// output block. Or, of no_run, the error of a channel that will serve none.
struct RunReply {
  std::uint64_t run = 0;
  ValuesPlace values;
  std::uint64_t wanted_bytes = 0;    ///< not 0: the run goes on once there is an answer, RunMemory
  std::int32_t error = 0;            ///< ErrorCode; 0: none
  std::uint32_t is_device_lost = 0;  ///< with an error: this worker cannot use its device any more
  std::uint32_t lacks_memory = 0;    ///< with an error: it has none of the blocks, and the next run has to bring them
  std::uint64_t nanoseconds = 0;     ///< from taking the run to this
};

/// The answer to RunReply::wanted_bytes: comes with the new output block; without one, there is no memory for it.
struct RunMemory {
  std::uint64_t run = 0;
};

/// From the process to its worker. `load` comes first, with a file in memory that holds the options.
struct WorkerCommand {
  enum class Kind : std::uint32_t {
    load,
    open_channel,  ///< with a socket for runs, one at a time
    stop_run,
    limit_computing,  ///< how many runs of the channels compute at the same time; the others copy their values
  };
  Kind kind = Kind::load;
  std::int32_t parent = 0;    ///< the process id of the sender, with `load`
  std::uint64_t channel = 0;  ///< its number
  std::uint64_t run = 0;
  std::uint32_t computing = 0;
};

/// The answers to `load`.
struct LoadReply {
  enum class Kind : std::uint32_t {
    sandbox,  ///< with a sandbox, before any code of others has run: its line for the verdict follows
    report,   ///< a report of `bytes`, which arrives in messages of its own: receive_text()
    failure,  ///< an error, whose message follows
  };
  Kind kind = Kind::failure;
  std::int32_t error = 0;
  std::uint64_t bytes = 0;         ///< bytes of the report
  std::uint64_t memory_bytes = 0;  ///< memory limit of the sandbox; 0: none
};

/// A message that is an error's number and text, cut to what fits behind `Head`. Error resource_exhausted.
template <typename Head>
[[nodiscard]] bool send_with_text(int socket, const Head& head, std::string_view text) {
  std::array<std::byte, max_message_bytes> bytes;
  const std::size_t length = utf8_prefix(text, bytes.size() - sizeof head).size();
  std::memcpy(bytes.data(), &head, sizeof head);
  if (length != 0) std::memcpy(bytes.data() + sizeof head, text.data(), length);
  return send_message(socket, std::span<const std::byte>(bytes.data(), sizeof head + length));
}

/// A file in memory with this content, for good: nobody can write to it or change its size. Error resource_exhausted.
UniqueFd file_of_text(const std::string& text);

/// The content of such a file. Error internal.
std::string text_of_file(int file);

/// A text as messages. False if the other end is closed. Error resource_exhausted.
[[nodiscard]] bool send_text(int socket, std::string_view text);

/// A text of `size` bytes that send_text() sent. Takes memory as it comes. `wait`: returns when there is a message, or
/// throws. Empty if the other end is closed. Error internal if it is larger than a report can be, or is sent otherwise.
std::optional<std::string> receive_text(int socket, std::uint64_t size, const std::function<void()>& wait);

}  // namespace gpux::isolation
