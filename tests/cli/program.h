#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "base/process.h"
#include "base/temporary_folder.h"

namespace gpux::test {

using Json = nlohmann::ordered_json;

/// How a call ended. Compare `code` with the documented exit codes; 128 + signal where one ended it.
struct Outcome {
  int code = -1;
  std::string out, err;

  /// Standard output as one JSON document and nothing else. Fails the test, and gives null, where it is none.
  [[nodiscard]] Json json() const;
};

/// Shown by a failed assertion.
void PrintTo(const Outcome& outcome, std::ostream* stream);

/// What surrounds one call.
struct Surroundings {
  std::vector<std::string> environment = {};       ///< "NAME=value", before this process's own
  std::filesystem::path folder = {};               ///< the current directory; empty: the test's
  std::optional<std::string> standard_input = {};  ///< empty: nothing can be read
  bool terminal = false;                           ///< standard output is a terminal
  std::string shell = {};                          ///< commands of sh that come before, as "exec 2>&-"
  std::chrono::seconds limit{120};                 ///< past it the call is killed and the test fails
};

/// The built gpux with a home of its own. No GPUX_* variable of the caller reaches it.
class Program {
 public:
  Program();

  /// Runs gpux with these arguments and waits for its end.
  [[nodiscard]] Outcome run(const std::vector<std::string>& arguments, const Surroundings& where = {}) const;

  /// GPUX_HOME.
  [[nodiscard]] std::filesystem::path home() const { return folder_.path() / "home"; }

  /// For files of the test; goes with the object. The home is in it.
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

  /// The program's own file.
  [[nodiscard]] static std::filesystem::path file();

 private:
  TemporaryFolder folder_;
};

/// gpux in a process of its own that goes on.
struct Started {
  pid_t child = -1;
  int out = -1;  ///< its standard output, to read and to close
};

/// Starts gpux with the program's home; standard error goes into `log`, behind what is there where `append` says so.
Started start(const Program& gpux, std::vector<std::string> arguments, const std::filesystem::path& log, bool append,
              const std::vector<std::pair<std::string, std::string>>& environment);

/// A file of tests/models.
std::string model(std::string_view name);

/// Whether `err` is what gpux promises of errors: one line that begins with "gpux: ".
bool is_one_line(const std::string& err);

}  // namespace gpux::test
