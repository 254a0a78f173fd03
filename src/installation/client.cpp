#include "installation/client.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_problem.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "installation/packages.h"

namespace gpux::installation {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Gigabytes over a slow line.
constexpr std::chrono::hours time_limit{4};

// It reports what it would install, with digests.
constexpr std::string_view oldest_pip = "23.0";

std::vector<std::string> common_arguments(const Source& source) {
  std::vector<std::string> arguments{"install",   "--quiet", "--no-input", "--disable-pip-version-check",
                                     "--retries", "3",       "--no-deps",  "--only-binary",
                                     ":all:"};
  if (!source.folder.empty()) {
    for (const char* word : {"--isolated", "--no-index", "--find-links"}) arguments.emplace_back(word);
    arguments.push_back(source.folder.string());
  }
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  return split(text, '\n');
}

// The last line with a word that tells what went wrong.
std::string line_with(const std::string& text, std::string_view word) {
  for (const std::string& line : lines_of(text)) {
    if (line.find(word) != std::string::npos) return line;
  }
  return {};
}

constexpr std::size_t longest_words = 300;

std::string last_error(const std::string& text) {
  std::string last;
  for (const std::string& line : lines_of(text)) {
    if (!line.empty() && (last.empty() || line.starts_with("ERROR: "))) last = line;
  }
  if (last.starts_with("ERROR: ")) last.erase(0, std::string_view("ERROR: ").size());
  return std::string(utf8_prefix(last, longest_words));
}

bool has_any(const std::string& text, std::span<const std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

constexpr std::array<std::string_view, 8> network_words{
    "connection broken by", "NewConnectionError", "ConnectTimeoutError", "ReadTimeout", "SSLError",
    "ProxyError",           "HTTP error",         "Connection refused"};

// "ConnectionRefused…" of urllib3's long words.
std::string network_reason(const std::string& text) {
  for (const std::string_view words :
       {"Name or service not known", "Connection refused", "Network is unreachable",
        "Temporary failure in name resolution", "certificate verify failed", "timed out", "401", "403", "404"}) {
    if (text.find(words) != std::string::npos) return fmt::format(" ({})", lower(words));
  }
  return {};
}

// The newest of "(from versions: 0.1, 0.2)"; empty where it says none.
std::string versions_in(const std::string& line) {
  constexpr std::string_view opening = "(from versions: ";
  const std::size_t begin = line.find(opening);
  const std::size_t end = line.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> versions = split(line.substr(begin + opening.size(), end - begin - opening.size()), ',');
  if (versions.empty() || versions.front() == "none") return {};
  constexpr std::ptrdiff_t most = 8;
  const auto count = static_cast<std::ptrdiff_t>(versions.size());
  if (count > most) versions.erase(versions.begin(), versions.end() - most);
  std::ranges::reverse(versions);
  return join(versions);
}

std::string requirement_in(const std::string& line) {
  constexpr std::string_view words = "the requirement ";
  const std::size_t begin = line.find(words);
  if (begin == std::string::npos) return "a package";
  const std::size_t from = begin + words.size();
  return line.substr(from, line.find(' ', from) - from);
}

}  // namespace

std::vector<std::string> planning_arguments(std::span<const std::string> requirements, const Source& source,
                                            const fs::path& report) {
  std::vector<std::string> arguments = common_arguments(source);
  for (const char* word : {"--dry-run", "--ignore-installed", "--report"}) arguments.emplace_back(word);
  arguments.push_back(report.string());
  std::ranges::copy(requirements, std::back_inserter(arguments));
  return arguments;
}

std::vector<std::string> unpacking_arguments(const fs::path& requirements, const Source& source,
                                             const fs::path& target) {
  std::vector<std::string> arguments = common_arguments(source);
  for (const std::string& word :
       {std::string("--no-compile"), std::string("--no-warn-script-location"), std::string("--require-hashes"),
        std::string("--target"), target.string(), std::string("--requirement"), requirements.string()}) {
    arguments.push_back(word);
  }
  return arguments;
}

std::vector<ort::InstalledPackage> read_plan(std::string_view report, std::span<const std::string> requirements) {
  std::vector<ort::InstalledPackage> found, packages;
  try {
    const json plan = json::parse(report);
    for (const json& entry : plan.at("install")) {
      const std::string place = entry.at("download_info").at("url").get<std::string>();
      found.push_back({package_name(entry.at("metadata").at("name").get<std::string>()),
                       entry.at("metadata").at("version").get<std::string>(), place.substr(place.rfind('/') + 1),
                       entry.at("download_info").at("archive_info").at("hashes").at("sha256").get<std::string>()});
    }
  } catch (const json::exception& exception) {
    throw Error(ErrorCode::network,
                fmt::format("pip's report of what it would install lacks what gpux needs, a digest for each wheel "
                            "(pip 23 or newer writes it): {}",
                            json_problem(exception)));
  }
  for (const std::string& requirement : requirements) {
    const auto package = std::ranges::find(found, package_name(requirement), &ort::InstalledPackage::name);
    if (package == found.end()) {
      throw Error(ErrorCode::network, fmt::format("pip found no wheel for '{}', and reported no error", requirement));
    }
    packages.push_back(*package);
  }
  return packages;
}

std::string pinned_requirements(std::span<const ort::InstalledPackage> packages) {
  std::string text;
  for (const ort::InstalledPackage& package : packages) {
    text += fmt::format("{}=={} --hash=sha256:{}\n", package.name, package.version, package.sha256);
  }
  return text;
}

Error explain_failure(const std::string& what, const ProcessResult& result, const Source& source) {
  const std::string& text = result.standard_error;
  const auto error = [&](ErrorCode code, const std::string& why) {
    return Error(code, fmt::format("{}: {}", what, why));
  };
  if (result.timed_out) return error(ErrorCode::deadline_exceeded, "pip did not end within 4 hours");
  if (text.find("No space left on device") != std::string::npos ||
      text.find("Disk quota exceeded") != std::string::npos) {
    return error(ErrorCode::storage, "the disk is full; nothing of it was kept");
  }
  if (text.find("Permission denied") != std::string::npos) return error(ErrorCode::permission, last_error(text));
  if (text.find("DO NOT MATCH THE HASHES") != std::string::npos) {
    return error(ErrorCode::network, "a wheel is not what the index said: its SHA-256 differs; nothing was installed");
  }
  const bool is_offline = !source.folder.empty();
  if (!is_offline && has_any(text, network_words)) {
    return error(ErrorCode::network,
                 fmt::format("the package index cannot be reached{}; 'pip config list' shows which it is, and --from "
                             "FOLDER installs from wheels in a folder",
                             network_reason(text)));
  }
  if (const std::string line = line_with(text, "(from versions: "); !line.empty()) {
    const std::string where = is_offline ? fmt::format("the folder '{}'", source.folder.string()) : "the package index";
    const std::string versions = versions_in(line);
    if (versions.empty()) {
      return error(ErrorCode::not_found,
                   fmt::format("{} has no wheel of {} for this system and this Python", where, requirement_in(line)));
    }
    return error(ErrorCode::not_found, fmt::format("{} has no {}; it has {}", where, requirement_in(line), versions));
  }
  const std::string words = last_error(text);
  return error(ErrorCode::network,
               words.empty() ? fmt::format("pip ended with exit code {}", result.exit_code) : "pip: " + words);
}

std::vector<std::string> client_command(std::vector<std::string> arguments) {
  // With -m, the current folder would be the first place where Python looks for pip and all that pip imports. The empty
  // entry is that folder; until it is gone, nothing is imported that is not a part of the interpreter.
  constexpr const char* program =
      "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
      "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)";
  arguments.insert(arguments.begin(), {"python3", "-c", program});
  return arguments;
}

std::string client_version() {
  constexpr std::chrono::seconds limit{60};
  ProcessResult result;
  try {
    result = run_process(client_command({"--version"}), limit);
  } catch (const Error&) {
    throw Error(ErrorCode::not_found,
                "python3 is not on PATH, and gpux installs with its pip: sudo apt install python3-pip");
  }
  if (result.timed_out) {
    throw Error(ErrorCode::deadline_exceeded,
                fmt::format("'python3 -m pip --version' did not end within {} s", limit.count()));
  }
  // "pip 23.2.1 from /usr/lib/python3/dist-packages/pip (python 3.11)"
  const std::vector<std::string> words = split(result.standard_output, ' ');
  if (result.exit_code != 0 || words.size() < 2 || words.front() != "pip") {
    throw Error(ErrorCode::not_found, "python3 has no pip, which gpux installs with: sudo apt install python3-pip");
  }
  if (ort::is_older_version(words[1], oldest_pip)) {
    throw Error(ErrorCode::not_found,
                fmt::format("python3 has pip {}, and gpux installs with pip {} or newer: python3 -m pip install "
                            "--upgrade pip",
                            words[1], oldest_pip));
  }
  return "pip " + words[1];
}

void run_client(const std::string& what, std::vector<std::string> arguments, const Source& source,
                const fs::path& scratch) {
  // Settings for installing into an environment contradict a folder. Wheels are unpacked where there is to be room.
  const ProcessResult result = run_process(client_command(std::move(arguments)), time_limit,
                                           {"PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0", "PIP_ROOT_USER_ACTION=ignore",
                                            "LC_ALL=C.UTF-8", "TMPDIR=" + scratch.string()});
  if (result.timed_out || result.exit_code != 0) throw explain_failure(what, result, source);
}

}  // namespace gpux::installation
