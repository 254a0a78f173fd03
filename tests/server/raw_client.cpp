#include "server/raw_client.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

namespace gpux::http {

namespace {

constexpr std::chrono::seconds patience{10};

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

void connect_to(int handle, const sockaddr* address, socklen_t length) {
  if (::connect(handle, address, length) != 0) {
    throw std::runtime_error(std::string("cannot connect: ") + std::strerror(errno));
  }
}

}  // namespace

RawClient::RawClient(std::uint16_t port, int receive_buffer_bytes)
    : handle_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (handle_ < 0) throw std::runtime_error("no socket is left");
  if (receive_buffer_bytes > 0) {
    ::setsockopt(handle_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect_to(handle_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

RawClient::RawClient(const std::filesystem::path& unix_path)
    : handle_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
  connect_to(handle_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

RawClient::~RawClient() {
  close();
}

void RawClient::close() {
  if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

void RawClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(handle_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void RawClient::shut_down_sending() const {
  ::shutdown(handle_, SHUT_WR);
}

bool RawClient::send(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t sent = ::send(handle_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string RawClient::receive_some(std::size_t limit, std::chrono::milliseconds wait) {
  if (!readable(wait)) return {};
  std::string text(limit, '\0');
  const ssize_t received = ::recv(handle_, text.data(), text.size(), 0);
  text.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
  return text;
}

bool RawClient::fill() {
  const std::string more = receive_some(64 << 10, patience);
  pending_ += more;
  return !more.empty();
}

bool RawClient::fill_to(std::size_t size) {
  while (pending_.size() < size) {
    if (!fill()) return false;
  }
  return true;
}

std::string RawClient::take(std::size_t size) {
  std::string text = pending_.substr(0, size);
  pending_.erase(0, size);
  return text;
}

std::optional<std::string> RawClient::take_line() {
  std::size_t end = 0;
  while ((end = pending_.find("\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string line = take(end);
  take(2);
  return line;
}

std::optional<std::string> RawClient::take_chunks() {
  std::string body;
  for (;;) {
    const auto line = take_line();
    if (!line) return std::nullopt;
    const std::size_t size = std::stoul(*line, nullptr, 16);
    if (!fill_to(size + 2)) return std::nullopt;
    body += take(size);
    if (take(2) != "\r\n") return std::nullopt;
    if (size == 0) return body;
  }
}

Answered RawClient::receive(bool head) {
  for (;;) {
    Answered answer;
    const auto status_line = take_line();
    if (!status_line || status_line->size() < 12) return answer;
    answer.status = std::stoi(status_line->substr(9, 3));
    for (;;) {
      const auto line = take_line();
      if (!line) return answer;
      if (line->empty()) break;
      const std::size_t colon = line->find(": ");
      answer.headers[lower(line->substr(0, colon))] = line->substr(colon + 2);
    }
    if (answer.status < 200) continue;
    if (head || answer.status == 204 || answer.status == 304) {
      answer.complete = true;
    } else if (answer.header("transfer-encoding") == "chunked") {
      auto body = take_chunks();
      answer.complete = body.has_value();
      answer.body = body.value_or("");
    } else if (answer.headers.contains("content-length")) {
      const std::size_t size = std::stoul(answer.header("content-length"));
      answer.complete = fill_to(size);
      answer.body = take(size);
    } else {
      while (fill()) {
      }
      answer.body = take(pending_.size());
      answer.complete = true;
    }
    return answer;
  }
}

std::string RawClient::receive_all() {
  while (fill()) {
  }
  return take(pending_.size());
}

bool RawClient::readable(std::chrono::milliseconds wait) const {
  pollfd entry{handle_, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(wait.count())) > 0;
}

bool RawClient::ended(std::chrono::milliseconds wait) const {
  if (!readable(wait)) return false;
  std::array<char, 1> byte{};
  return ::recv(handle_, byte.data(), byte.size(), MSG_PEEK) <= 0;
}

Answered RawClient::ask(std::string_view text, bool head) {
  send(text);
  return receive(head);
}

RunningServer::RunningServer(Handler handler, const std::function<void(ServerOptions&)>& adjust, Admission admission) {
  ServerOptions options;
  options.port = 0;
  options.threads = 2;
  if (adjust) adjust(options);
  server = std::make_unique<Server>(std::move(options), std::move(handler), std::move(admission));
  server->start();
}

std::string get(std::string_view path, std::string_view fields) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view fields) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}

void echo(std::shared_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  Response response;
  response.headers.add("Content-Type", "text/plain");
  if (request.body.bytes.empty()) {
    response.text = request.path;
  } else {
    response.pieces.push_back(request.body);
  }
  exchange->respond(std::move(response));
}

std::string text_of(const Piece& piece) {
  return std::string(piece.text());
}

std::string compressed(std::string_view text, int wrapping) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, wrapping, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string uncompressed(std::string_view text) {
  z_stream stream{};
  inflateInit2(&stream, 31);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  std::string out;
  int outcome = Z_OK;
  while (outcome == Z_OK) {
    std::array<char, 4096> portion{};
    stream.next_out = reinterpret_cast<Bytef*>(portion.data());
    stream.avail_out = portion.size();
    outcome = inflate(&stream, Z_NO_FLUSH);
    out.append(portion.data(), portion.size() - stream.avail_out);
  }
  EXPECT_EQ(outcome, Z_STREAM_END);
  inflateEnd(&stream);
  return out;
}

}  // namespace gpux::http
