#include "daemon/socket_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/log.h"
#include "gpux/error.h"
#include "tensor/json_writer.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A client that does not take its answers is not read meanwhile.
constexpr std::size_t max_unsent = std::size_t{1} << 20;
constexpr std::size_t read_at_once = std::size_t{256} << 10;
// So long nobody is taken where there are no descriptors: the kernel would report at once that somebody waits.
constexpr auto accept_rest = 1s;

bool is_shortage(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.native().begin(), path.native().end(), address.sun_path);
  return address;
}

UniqueFd unix_socket() {
  UniqueFd descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor) throw_file_error("create", "a socket", errno);
  return descriptor;
}

bool is_listened_on(const fs::path& path) {
  const sockaddr_un address = address_of(path);
  const UniqueFd socket = unix_socket();
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
}

std::string refusal(std::string_view reason) {
  std::string line = R"({"error": )";
  append_json_string(line, reason);
  return line + "}\n";
}

}  // namespace

/// The socket under its name, which goes with it.
class SocketSource::Listener {
 public:
  explicit Listener(fs::path path) : path_(std::move(path)) {
    struct stat status {};

    if (::lstat(path_.c_str(), &status) == 0) {
      if (!S_ISSOCK(status.st_mode)) {
        throw Error(ErrorCode::storage, format_message("'{}' exists and is not a socket", file_at(path_)));
      }
      if (is_listened_on(path_)) {
        throw Error(ErrorCode::resource_exhausted, format_message("another process listens on '{}'", file_at(path_)));
      }
      ::unlink(path_.c_str());
    }
    const sockaddr_un address = address_of(path_);
    descriptor_ = unix_socket();
    // Before it has its name, so that it is nobody else's for a moment.
    ::fchmod(descriptor_.get(), 0600);
    if (::bind(descriptor_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(descriptor_.get(), 128) != 0) {
      throw_file_error("listen on", path_, errno);
    }
    ::lstat(path_.c_str(), &bound_);
  }

  ~Listener() {
    descriptor_.reset();

    struct stat status {};

    // Another may have taken its place.
    if (::lstat(path_.c_str(), &status) == 0 && status.st_ino == bound_.st_ino) ::unlink(path_.c_str());
  }

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  fs::path path_;

  struct stat bound_ {};

  UniqueFd descriptor_;
};

bool SocketSource::take_clients(const Listener& listener, std::list<Client>& clients) {
  for (;;) {
    UniqueFd socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (!is_shortage(errno)) return true;
      ++failed_accepts_;
      wait_for(fmt::format("no client can be accepted, retrying: {}", std::strerror(errno)));
      return false;
    }
    if (clients.size() >= around().limits.connections) {
      const std::string line =
          refusal(fmt::format("{} clients are connected, the limit 'connections'", clients.size()));
      [[maybe_unused]] const auto ignored = ::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL);
      continue;
    }
    clients.emplace_back().descriptor = std::move(socket);
  }
}

void SocketSource::read(Client& client) {
  std::array<char, 65536> buffer{};
  std::size_t total = 0;
  while (total < read_at_once) {
    const ssize_t count = ::recv(client.descriptor.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) {
      client.ended = true;
      if (count < 0) client.out.clear();
      return;
    }
    client.in.append(buffer.data(), static_cast<std::size_t>(count));
    total += static_cast<std::size_t>(count);
  }
}

void SocketSource::check_line(std::string line, Client& client, std::vector<std::string>& lines,
                              std::vector<Event>& events, std::vector<Answer>& answers) {
  if (line.ends_with('\r')) line.pop_back();
  if (line.find_first_not_of(" \t") == std::string::npos) return;
  try {
    if (line.size() > around().limits.event_bytes) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("it has more bytes than the {} of the limit 'event_bytes'", around().limits.event_bytes));
    }
    Event event = read_event(line, around().limits);
    answers.push_back({.client = &client, .error = {}, .line = lines.size()});
    lines.push_back(std::move(line));
    events.push_back(std::move(event));
  } catch (const Error& error) {
    log::warning("{}: a line is refused: {}", declared().name, error.message());
    count(Outcome::refused);
    answers.push_back({.client = &client, .error = error.message()});
  }
}

void SocketSource::take_lines(Client& client, std::vector<std::string>& lines, std::vector<Event>& events,
                              std::vector<Answer>& answers) {
  const std::uint64_t limit = around().limits.event_bytes;
  std::size_t begin = 0;
  for (std::size_t end = client.in.find('\n'); end != std::string::npos; end = client.in.find('\n', begin)) {
    if (!client.skips) check_line(client.in.substr(begin, end - begin), client, lines, events, answers);
    client.skips = false;
    begin = end + 1;
  }
  client.in.erase(0, begin);
  if (client.in.size() <= limit + 1) return;
  // Answered before its end has come, and not kept until then.
  if (!client.skips) check_line(std::move(client.in), client, lines, events, answers);
  client.in.clear();
  client.skips = true;
}

bool SocketSource::keep_and_answer(const std::vector<std::string>& lines, const std::vector<Event>& events,
                                   const std::vector<Answer>& answers, const std::stop_token& stop) {
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  std::vector<std::string> positions;
  while (!lines.empty()) {
    try {
      positions = keep(views);
      wait_for({});
      break;
    } catch (const Error& error) {
      wait_for(error.message());
    }
    if (stop.stop_requested()) return false;
    accept_waker().sleep(1s);
  }
  for (const Answer& answer : answers) {
    answer.client->out += answer.error.empty()
                              ? fmt::format("{{\"accepted\": true, \"hash\": \"{}\"}}\n",
                                            event_hash(declared().name, positions[answer.line], events[answer.line]))
                              : refusal(answer.error);
  }
  return true;
}

void SocketSource::write(Client& client) {
  while (!client.out.empty()) {
    const ssize_t count = ::send(client.descriptor.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) {
      client.ended = true;
      client.out.clear();
      return;
    }
    client.out.erase(0, static_cast<std::size_t>(count));
  }
}

void SocketSource::accept(const std::stop_token& stop) {
  const Listener listener(declared().path);
  std::list<Client> clients;
  Clock::time_point rests_until{};
  wait_for({});
  while (!stop.stop_requested()) {
    const bool full = is_full();
    const bool rests = Clock::now() < rests_until;
    if (full) wait_for(fmt::format("{} bytes wait, the limit 'journal_bytes'", around().limits.journal_bytes));
    std::vector<pollfd> waited{{.fd = accept_waker().descriptor(), .events = POLLIN, .revents = 0},
                               {.fd = rests ? -1 : listener.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Client& client : clients) {
      const bool reads = !full && !client.ended && client.out.size() < max_unsent;
      const auto events = static_cast<short>((reads ? POLLIN : 0) | (client.out.empty() ? 0 : POLLOUT));
      waited.push_back({.fd = client.descriptor.get(), .events = events, .revents = 0});
    }
    ::poll(waited.data(), waited.size(), full || rests ? 200 : -1);
    accept_waker().clear();
    if (full && !is_full()) wait_for({});
    std::vector<std::string> lines;
    std::vector<Event> events;
    std::vector<Answer> answers;
    std::size_t index = 2;
    for (Client& client : clients) {
      const pollfd& told = waited[index++];
      if ((told.events & POLLIN) != 0 && (told.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        read(client);
        take_lines(client, lines, events, answers);
        if (client.ended && !client.in.empty()) {
          answers.push_back({.client = &client, .error = "no line feed ends the last line"});
          client.in.clear();
        }
      } else if ((told.revents & (POLLHUP | POLLERR)) != 0) {
        client.ended = true;
        client.out.clear();
      }
    }
    if (!keep_and_answer(lines, events, answers, stop)) break;
    for (Client& client : clients) write(client);
    std::erase_if(clients, [](const Client& client) { return client.ended && client.out.empty(); });
    if ((waited[1].revents & POLLIN) == 0) continue;
    if (!take_clients(listener, clients)) {
      rests_until = Clock::now() + accept_rest;
    } else if (!is_full()) {
      wait_for({});
    }
  }
}

}  // namespace gpux::daemon
