#include "runtime/loading/preflight.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/own_program.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "isolation/load_message.h"
#include "isolation/message_socket.h"
#include "isolation/sandbox.h"
#include "isolation/worker_process.h"

namespace gpux::runtime {
namespace {

namespace fs = std::filesystem;

std::string reason_of(const TrialEnd& end) {
  return fmt::format("its library {} when it was first loaded: the process {}", end.has_hung ? "hung" : "crashed",
                     end.crash);
}

// False if the other end has neither written nor ended by then.
bool is_readable(int socket, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    constexpr decltype(left) longest = 3'600'000;
    pollfd watched{.fd = socket, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, longest)));
    if (ready > 0) return true;
    if (left <= 0) return false;
  }
}

fs::path record_of(const ProviderFile& file) {
  return Machine::this_one().home_folder() / "preflight" / (sha256_of(file.version) + ".txt");
}

std::vector<ProviderFile> without_records(std::vector<ProviderFile> files) {
  std::erase_if(files, [](const ProviderFile& file) {
    std::error_code error;
    return fs::exists(record_of(file), error);
  });
  return files;
}

void keep_record(const ProviderFile& file) {
  try {
    write_file_atomically(record_of(file), file.version);
  } catch (const Error& error) {
    log::info("the first load of {} will be tried again in a child process: {}", file.id, error.message());
  }
}

}  // namespace

CrashedProviders find_crashing(std::span<const ProviderFile> files, const LoadOptions& options, const TrialLoad& load) {
  const TrialEnd all = load(options);
  if (all.crash.empty()) return {};
  CrashedProviders crashed;
  for (const ProviderFile& file : files) {
    LoadOptions alone = options;
    alone.provider = file.id + ",cpu";
    const TrialEnd end = files.size() == 1 ? all : load(alone);
    if (!end.crash.empty()) crashed.emplace_back(file.id, reason_of(end));
  }
  LoadOptions rest = options;
  change_facts(rest, [&](LoadFacts& facts) {
    facts.crashed_providers.insert(facts.crashed_providers.end(), crashed.begin(), crashed.end());
  });
  const std::string end = crashed.empty() ? all.crash : load(rest).crash;
  if (end.empty()) return crashed;
  throw Error(ErrorCode::internal, fmt::format("the model cannot be loaded: a child process that tried it {}", end));
}

TrialEnd load_in_child(const fs::path& model, const std::string& name, const LoadOptions& options) {
  isolation::WorkerProcess process(name, options.sandbox);
  const UniqueFd file = isolation::file_of_text(to_json(isolation::worker_load_of(model, options)));
  const int descriptor = file.get();
  const isolation::WorkerCommand command{.kind = isolation::WorkerCommand::Kind::load, .parent = ::getpid()};
  isolation::ReceivedMessage message;
  const bool is_sent = isolation::send_message(process.control(), command, std::span(&descriptor, 1));
  const auto deadline = std::chrono::steady_clock::now() + options.preflight_timeout;
  for (;;) {
    if (is_sent && !is_readable(process.control(), deadline)) {
      const auto seconds = std::chrono::duration<double>(options.preflight_timeout).count();
      return {.crash = fmt::format("did not end within {} s", seconds), .has_loaded = false, .has_hung = true};
    }
    if (!is_sent || !isolation::receive_message(process.control(), message)) {
      return {.crash = process.wait(), .has_loaded = false};
    }
    const auto reply = message.as<isolation::LoadReply>();
    if (reply && reply->kind == isolation::LoadReply::Kind::sandbox) continue;
    return {.crash = {}, .has_loaded = reply && reply->kind == isolation::LoadReply::Kind::report};
  }
}

CrashedProviders preflight(const fs::path& model, const std::string& name, const LoadOptions& options) {
  if (worker_program().empty()) {
    throw Error(ErrorCode::usage, "a preflight requires the gpux program, which this is not; accepted here: off");
  }
  const std::vector<ProviderFile> files = without_records(provider_files(options, Machine::this_one()));
  if (files.empty()) return {};
  bool has_loaded = false;  // the last time
  CrashedProviders crashed = find_crashing(files, options, [&](const LoadOptions& with) {
    TrialEnd end = load_in_child(model, name, with);
    has_loaded = end.has_loaded;
    return end;
  });
  for (const ProviderFile& file : files) {
    const auto is_file = [&](const auto& one) { return one.first == file.id; };
    if (has_loaded && std::ranges::none_of(crashed, is_file)) keep_record(file);
  }
  return crashed;
}

}  // namespace gpux::runtime
