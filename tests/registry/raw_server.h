#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace gpux::test {

/// A server on a free port of 127.0.0.1 that answers each request with the bytes that a function makes of its head and
/// body, and then closes the connection.
class RawServer {
 public:
  /// `answer` gets the request as it came: head, empty line and body. `pause`: after each byte of the answer.
  explicit RawServer(std::function<std::string(const std::string&)> answer, std::chrono::milliseconds pause = {})
      : answer_(std::move(answer)), pause_(pause) {
    listening_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listening_.get(), generic, size) != 0 || ::listen(listening_.get(), 64) != 0 ||
        ::getsockname(listening_.get(), generic, &size) != 0) {
      throw std::runtime_error("no port is free");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }

  ~RawServer() {
    stopped_ = true;
    thread_.join();
  }

  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return fmt::format("http://{}:{}{}", host, port_, path);
  }

  [[nodiscard]] std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (!stopped_) {
      pollfd waited{.fd = listening_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&waited, 1, 20) != 1) continue;
      const UniqueFd connection(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const std::string request = read_request(connection.get());
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const std::string bytes = answer_(request);
      send_all(connection.get(), bytes);
      ::shutdown(connection.get(), SHUT_WR);
    }
  }

  void send_all(int connection, std::string_view bytes) const {
    if (pause_.count() == 0) {
      (void)!::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      return;
    }
    for (; !bytes.empty() && !stopped_; bytes.remove_prefix(1)) {
      if (::send(connection, bytes.data(), 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(pause_);
    }
  }

  static std::string read_request(int connection) {
    std::string request;
    for (;;) {
      const std::size_t end = request.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t at = request.find("Content-Length: ");
        const std::size_t length = at < end ? std::stoul(request.substr(at + 16)) : 0;
        if (request.size() >= end + 4 + length) return request;
      }
      char bytes[4096];
      const ssize_t count = ::recv(connection, bytes, sizeof(bytes), 0);
      if (count <= 0) return request;
      request.append(bytes, static_cast<std::size_t>(count));
    }
  }

  std::function<std::string(const std::string&)> answer_;
  std::chrono::milliseconds pause_;
  UniqueFd listening_;
  unsigned port_ = 0;
  std::atomic<bool> stopped_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// An answer with its length.
inline std::string http_answer(int status, const std::string& body, const std::string& headers = {}) {
  return fmt::format("HTTP/1.1 {} Status\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}", status, body.size(),
                     headers, body);
}

}  // namespace gpux::test
