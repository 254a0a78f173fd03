#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpux::server {

/// The record of a running server, in a file of its user's home.
struct ServerRecord {
  int pid = 0;
  std::uint64_t start_ticks = 0;  ///< of the process, since the system started: another with its number has another
  std::string address;            ///< "http://127.0.0.1:8080"
  std::uint16_t port = 0;
  std::uint16_t grpc_port = 0;      ///< 0: none
  std::vector<std::string> models;  ///< names, as it began
  std::string started;              ///< "2026-01-31T12:00:00Z"
  std::filesystem::path control;    ///< unix socket that needs no key; empty: none
  std::filesystem::path log;        ///< what it said so far
};

/// Where the records are, and the logs and control sockets of this process; made where it is missing.
std::filesystem::path servers_folder();
std::filesystem::path own_log_file();
/// Path of the control socket of this process; empty if the home's path is too long for a socket's name.
std::filesystem::path own_control_socket();

/// The log and the control socket of this process, which are removed when this goes. Its construction removes what
/// servers left behind that were killed: their records and logs after a week.
class OwnFiles {
 public:
  OwnFiles() noexcept;

  ~OwnFiles() { remove(); }

  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;

  /// Removes the files now.
  static void remove() noexcept;
};

/// While it lives the server is on record.
class OwnRecord {
 public:
  /// Fills in process and paths. Error storage.
  explicit OwnRecord(ServerRecord record);
  ~OwnRecord();
  OwnRecord(const OwnRecord&) = delete;
  OwnRecord& operator=(const OwnRecord&) = delete;

 private:
  std::filesystem::path file_;
};

/// Servers of this user that run now, oldest first.
std::vector<ServerRecord> running_servers();

/// Servers that were killed, so that their records remained; the most recent first.
std::vector<ServerRecord> killed_servers();

/// The server that `text` means: its process, port, or the name of a model that it alone serves; empty: the only one.
/// Error not_found, which lists them, and usage where several fit.
ServerRecord find_server(const std::string& text);

/// find_server() among the running servers, or if none fits among the killed ones, for reading their logs. Errors as
/// find_server().
ServerRecord find_logged_server(const std::string& text);

/// Whether it still runs.
bool is_running(const ServerRecord& record);

/// Answer of a server over its control socket.
struct ControlAnswer {
  int status = 0;    ///< of HTTP: 200, 503
  std::string line;  ///< the first line, with the status
  std::string body;
};

/// GET `target` over the server's control socket, within the limit. Errors not_found (it has gone), network (no socket,
/// or no whole answer by then).
ControlAnswer get_from_server(const ServerRecord& record, const std::string& target,
                              std::chrono::milliseconds limit = std::chrono::seconds(10));

/// The body of the answer. Errors of get_from_server(), and network for a status other than 200.
std::string ask_server(const ServerRecord& record, const std::string& target,
                       std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace gpux::server
