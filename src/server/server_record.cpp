#include "server/server_record.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files.h"
#include "base/home.h"
#include "base/spelling.h"
#include "base/unique_fd.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Of the socket's next call of that direction. False at the deadline.
bool set_time_limit(int socket, int option, std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now()).count();
  if (left <= 0) return false;
  constexpr decltype(left) second = 1'000'000;
  const timeval limit{.tv_sec = left / second, .tv_usec = left % second};
  return ::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit) == 0;
}

// Field 22 of /proc/PID/stat; the name before it may hold anything, so count from its closing parenthesis.
std::optional<std::uint64_t> start_ticks_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 > text.size()) return std::nullopt;
  const std::vector<std::string> fields = split(text.substr(end + 2), ' ');
  constexpr std::size_t state = 0, start = 19;
  if (fields.size() <= start || fields[state] == "Z") return std::nullopt;
  return std::stoull(fields[start]);
}

Json to_json(const ServerRecord& record) {
  return {{"pid", record.pid},         {"start_ticks", record.start_ticks},  {"address", record.address},
          {"port", record.port},       {"grpc_port", record.grpc_port},      {"models", record.models},
          {"started", record.started}, {"control", record.control.string()}, {"log", record.log.string()}};
}

std::optional<ServerRecord> read_record(const fs::path& file) {
  try {
    const Json json = Json::parse(read_file(file));
    ServerRecord record;
    record.pid = json.at("pid");
    record.start_ticks = json.at("start_ticks");
    record.address = json.at("address");
    record.port = json.at("port");
    record.grpc_port = json.at("grpc_port");
    record.models = json.at("models").get<std::vector<std::string>>();
    record.started = json.at("started");
    record.control = json.at("control").get<std::string>();
    record.log = json.at("log").get<std::string>();
    return record;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void remove_quietly(const fs::path& file) {
  std::error_code ignored;
  if (!file.empty()) fs::remove(file, ignored);
}

std::string listed(const std::vector<ServerRecord>& servers) {
  std::vector<std::string> texts;
  for (const ServerRecord& server : servers) {
    texts.push_back(fmt::format("{} on port {} ({})", server.pid, server.port, join(server.models)));
  }
  return join(texts, "; ");
}

// Of all servers, oldest first.
std::vector<ServerRecord> records() {
  std::vector<ServerRecord> all;
  std::error_code error;
  for (fs::directory_iterator i(home_folder() / "servers", error), end; !error && i != end; i.increment(error)) {
    if (i->path().extension() != ".json") continue;
    if (std::optional<ServerRecord> record = read_record(i->path())) all.push_back(*std::move(record));
  }
  std::sort(all.begin(), all.end(), [](const ServerRecord& a, const ServerRecord& b) {
    return std::pair(a.start_ticks, a.pid) < std::pair(b.start_ticks, b.pid);
  });
  return all;
}

bool fits(const ServerRecord& server, const std::string& text) {
  return text.empty() || text == std::to_string(server.pid) || text == std::to_string(server.port) ||
         text == server.address || std::find(server.models.begin(), server.models.end(), text) != server.models.end();
}

// What servers left behind that were killed: logs and records after a week.
void remove_left_files() {
  constexpr std::chrono::hours kept{24 * 7};
  const fs::path folder = home_folder() / "servers";
  std::error_code error;
  std::set<std::string> known, expired;
  for (const ServerRecord& record : records()) {
    const fs::file_time_type written = fs::last_write_time(folder / fmt::format("{}.json", record.pid), error);
    if (is_running(record) || error || fs::file_time_type::clock::now() - written < kept) {
      known.insert(std::to_string(record.pid));
    } else {
      expired.insert(std::to_string(record.pid));
    }
  }
  // Without a record: of a server that begins, as long as its process is there.
  std::vector<fs::path> left;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string process = i->path().filename().string().substr(0, i->path().filename().string().find('.'));
    std::error_code unreadable;
    // A container that shares the home has processes that are not seen here.
    const bool is_old = fs::file_time_type::clock::now() - fs::last_write_time(i->path(), unreadable) > kept;
    const bool is_left =
        !known.contains(process) && is_old && !unreadable && !fs::exists("/proc/" + process, unreadable);
    if (is_left || expired.contains(process)) left.push_back(i->path());
  }
  for (const fs::path& file : left) remove_quietly(file);
}

}  // namespace

fs::path servers_folder() {
  fs::path folder = home_folder() / "servers";
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) throw_file_error("create the folder", folder.string(), error.value());
  return folder;
}

fs::path own_log_file() {
  return servers_folder() / fmt::format("{}.log", ::getpid());
}

fs::path own_control_socket() {
  fs::path path = servers_folder() / fmt::format("{}.sock", ::getpid());
  return path.string().size() < sizeof(sockaddr_un::sun_path) ? path : fs::path();
}

OwnRecord::OwnRecord(ServerRecord record) {
  record.pid = ::getpid();
  record.start_ticks = start_ticks_of(record.pid).value_or(0);
  record.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  file_ = servers_folder() / fmt::format("{}.json", record.pid);
  write_file_atomically(file_, to_json(record).dump() + "\n");
}

OwnRecord::~OwnRecord() {
  remove_quietly(file_);
}

bool is_running(const ServerRecord& record) {
  return start_ticks_of(record.pid) == record.start_ticks;
}

std::vector<ServerRecord> running_servers() {
  std::vector<ServerRecord> servers = records();
  std::erase_if(servers, [](const ServerRecord& record) { return !is_running(record); });
  return servers;
}

std::vector<ServerRecord> killed_servers() {
  std::vector<ServerRecord> servers = records();
  std::erase_if(servers, is_running);
  std::ranges::reverse(servers);
  return servers;
}

OwnFiles::OwnFiles() noexcept {
  try {
    remove_left_files();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): they stay until the next server
  }
}

void OwnFiles::remove() noexcept {
  try {
    for (const char* kind : {"log", "1.log", "sock"}) {
      remove_quietly(home_folder() / "servers" / fmt::format("{}.{}", ::getpid(), kind));
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): likewise
  }
}

ServerRecord find_server(const std::string& text) {
  const std::vector<ServerRecord> servers = running_servers();
  if (servers.empty()) throw Error(ErrorCode::not_found, "no server of this user runs; 'gpux serve' starts one");
  std::vector<ServerRecord> found;
  for (const ServerRecord& server : servers) {
    if (fits(server, text)) found.push_back(server);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("no server is '{}'; there are {}", text, listed(servers)));
  }
  throw Error(ErrorCode::usage,
              fmt::format("{} servers run, say which by process or port: {}", found.size(), listed(found)));
}

ServerRecord find_logged_server(const std::string& text) {
  try {
    return find_server(text);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    for (const ServerRecord& server : killed_servers()) {
      if (fits(server, text)) return server;
    }
    throw;
  }
}

ControlAnswer get_from_server(const ServerRecord& record, const std::string& target, std::chrono::milliseconds limit) {
  if (record.control.empty()) {
    throw Error(ErrorCode::network,
                fmt::format("server {} has no control socket: the path of its home is too long", record.pid));
  }
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = record.control.string();
  std::copy_n(path.begin(), std::min(path.size(), sizeof address.sun_path - 1), address.sun_path);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto too_late = [&] {
    return Error(ErrorCode::network, fmt::format("server {} did not answer {} within {} s", record.pid, target,
                                                 std::chrono::duration<double>(limit).count()));
  };
  (void)set_time_limit(socket.get(), SO_SNDTIMEO, deadline);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) throw too_late();
    throw Error(ErrorCode::not_found, fmt::format("server {} does not answer", record.pid));
  }
  const std::string request = fmt::format("GET {} HTTP/1.0\r\nAccept: application/json\r\n\r\n", target);
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
    throw Error(ErrorCode::network, fmt::format("server {} accepts no requests", record.pid));
  }
  std::string answer;
  char part[16384];
  for (ssize_t count = 1; count > 0;) {
    if (!set_time_limit(socket.get(), SO_RCVTIMEO, deadline)) throw too_late();
    count = ::recv(socket.get(), part, sizeof part, 0);
    if (count < 0 && errno == EAGAIN) throw too_late();
    if (count > 0) answer.append(part, static_cast<std::size_t>(count));
  }
  // "HTTP/1.1 200 OK"
  const std::size_t body = answer.find("\r\n\r\n");
  const std::string line = answer.substr(0, answer.find('\r'));
  int status = 0;
  if (const std::size_t space = line.find(' '); space != std::string::npos) {
    std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  }
  if (body == std::string::npos || status == 0) {
    throw Error(ErrorCode::network, fmt::format("server {} answered {}: '{}'", record.pid, target, line));
  }
  return {.status = status, .line = line, .body = answer.substr(body + 4)};
}

std::string ask_server(const ServerRecord& record, const std::string& target, std::chrono::milliseconds limit) {
  ControlAnswer answer = get_from_server(record, target, limit);
  if (answer.status != 200) {
    throw Error(ErrorCode::network, fmt::format("server {} answered {}: '{}'", record.pid, target, answer.line));
  }
  return std::move(answer.body);
}

}  // namespace gpux::server
