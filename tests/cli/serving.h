#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "cli/program.h"
#include "server/raw_client.h"
#include "server/service.h"

namespace gpux::test {

using http::Answered;
using http::RawClient;

/// A server in a process of its own, ended with the object.
class Serving {
 public:
  Serving(const Program& gpux, std::vector<std::string> arguments,
          const std::vector<std::pair<std::string, std::string>>& environment = {})
      : folder_(gpux.folder().path()) {
    arguments.insert(arguments.begin(), "serve");
    arguments.emplace_back("--json");
    if (std::find(arguments.begin(), arguments.end(), "-p") == arguments.end()) {
      arguments.insert(arguments.end(), {"--port", "0"});
    }
    const auto names_grpc = [](const std::string& word) {
      return word.starts_with("--grpc-port") || word.starts_with("--no-grpc");
    };
    if (std::none_of(arguments.begin(), arguments.end(), names_grpc)) {
      arguments.insert(arguments.end(), {"--grpc-port", "0"});
    }
    const auto [child, out] = start(gpux, arguments, folder_ / "serve.log", false, environment);
    child_ = child;
    std::string line;
    for (char c = 0; ::read(out, &c, 1) == 1 && c != '\n';) line += c;
    ::close(out);
    ready_ = Json::parse(line, nullptr, false);
    EXPECT_FALSE(ready_.is_discarded()) << line << log();
  }

  ~Serving() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }

  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  [[nodiscard]] const Json& ready() const { return ready_; }

  [[nodiscard]] std::uint16_t port() const { return ready_.at("port"); }

  [[nodiscard]] std::string log() const { return read_file(folder_ / "serve.log"); }

  [[nodiscard]] Answered ask(const std::string& request) const { return RawClient(port()).ask(request); }

  [[nodiscard]] Json json(const std::string& request, int status = 200) const {
    const Answered answer = ask(request);
    EXPECT_EQ(answer.status, status) << answer.body;
    return Json::parse(answer.body);
  }

  [[nodiscard]] pid_t process() const noexcept { return child_; }

  void signal(int number) const { ::kill(child_, number); }

  /// The exit code; -1 where it does not end within ten seconds.
  int wait() {
    for (int i = 0; i < 1000; ++i) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }

 private:
  std::filesystem::path folder_;
  pid_t child_ = -1;
  Json ready_;
};

}  // namespace gpux::test
