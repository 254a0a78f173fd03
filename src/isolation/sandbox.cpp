#include "isolation/sandbox.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/spelling.h"
#include "base/unique_fd.h"
#include "gpux/error.h"
#include "isolation/landlock.h"
#include "isolation/load_facts.h"
#include "isolation/system_call_filter.h"
#include "isolation/worker_process.h"
#include "ort/core_search.h"
#include "provider/engine_cache.h"
#include "provider/probe.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

constexpr bool has_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

// --- facts
// ------------------------------------------------------------------------------------------------------------

// The folders of files that variables of the Vulkan and OpenCL loaders name.
void add_driver_folders(const Machine& machine, std::vector<fs::path>& folders) {
  for (const char* variable :
       {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"}) {
    for (const std::string& file : split(machine.variable(variable), ':')) {
      if (!file.empty()) folders.push_back(fs::path(file).parent_path());
    }
  }
}

std::vector<fs::path> library_folders(const Machine& machine, const LoadOptions& options) {
  std::vector<fs::path> folders = ort::own_library_folders(machine);
  for (const ort::CoreFile& core : ort::find_cores(machine)) folders.push_back(core.library.parent_path());
  for (const provider::PluginFile& plugin : provider::find_plugins(options.provider_libraries, machine)) {
    folders.push_back(fs::absolute(plugin.library).parent_path());
  }
  std::ranges::copy(ort::python_package_folders(machine), std::back_inserter(folders));
  for (const char* folder : {"lib", "cores", "providers", "python"}) {
    folders.push_back(machine.home_folder() / folder);
  }
  for (const std::string& folder : split(machine.variable("LD_LIBRARY_PATH"), ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  add_driver_folders(machine, folders);
  return folders;
}

// gpux's own holds what other models run: none of it may be a stranger's.
fs::path cache_of(const LoadOptions& options) {
  return options.cache_directory == provider::own_engine_folder ? fs::path() : options.cache_directory;
}

bool has_device_files() {
  std::error_code error;
  return std::ranges::any_of(std::array{"/dev/nvidiactl", "/dev/dri", "/dev/kfd", "/dev/accel", "/dev/dxg"},
                             [&](const char* file) { return fs::exists(file, error); });
}

std::uint64_t bytes_of(const std::vector<fs::path>& files) {
  std::uint64_t sum = 0;
  for (const fs::path& file : files) {
    std::error_code error;
    if (fs::is_regular_file(file, error)) sum += fs::file_size(file, error);
  }
  return sum;
}

// --- limits
// -----------------------------------------------------------------------------------------------------------

// The value behind a name of /proc/PID/status; 0 without it.
std::uint64_t number_in(const std::string& status, std::string_view name) {
  const std::size_t begin = status.find(name);
  return begin == std::string::npos ? 0 : std::strtoull(status.c_str() + begin + name.size(), nullptr, 10);
}

// Which the limit of processes counts.
std::uint64_t threads_of_this_user() {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().native().find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry->path() / "status");
    const std::string status{std::istreambuf_iterator<char>(file), {}};
    if (number_in(status, "\nUid:\t") == ::getuid()) sum += number_in(status, "\nThreads:\t");
  }
  return sum;
}

class Limits {
 public:
  explicit Limits(std::vector<std::string>& missing) : missing_(missing) {}

  // Never more than it is.
  bool set(int resource, std::uint64_t value, const char* what) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0) {
      limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
      limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
      if (::setrlimit(resource, &limit) == 0) return true;
    }
    missing_.push_back(fmt::format("a limit of {}: {}", what, std::strerror(errno)));
    return false;
  }

 private:
  std::vector<std::string>& missing_;
};

void set_limits(const SandboxPlan& plan, SandboxReport& report) {
  Limits limits(report.missing);
  limits.set(RLIMIT_CORE, 0, "core dumps");
  limits.set(RLIMIT_NOFILE, plan.max_open_files, "open files");
  // Root is not limited: threads are all that it can start.
  if (::getuid() != 0) limits.set(RLIMIT_NPROC, threads_of_this_user() + plan.max_more_threads, "threads");
  if (!plan.memory_bytes) {
    report.missing.emplace_back("a limit of memory: the sanitizer of this build needs more");
    return;
  }
  ::signal(SIGXFSZ, SIG_IGN);
  // Of private memory, and of what is shared with the server: files in memory.
  if (!limits.set(RLIMIT_DATA, *plan.memory_bytes + plan.cache_address_bytes, "memory")) return;
  if (limits.set(RLIMIT_FSIZE, *plan.memory_bytes, "file sizes")) report.memory_bytes = plan.memory_bytes;
}

// --- privileges
// -------------------------------------------------------------------------------------------------------

// Root keeps what reading and writing of others' files takes: the paths are limited otherwise.
std::string drop_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return std::strerror(errno);
  constexpr std::uint32_t kept = (1U << CAP_DAC_OVERRIDE) | (1U << CAP_DAC_READ_SEARCH);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return std::strerror(errno);
  bool has_more = false;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::uint32_t mask = i == 0 ? kept : 0;
    __user_cap_data_struct& set = sets.at(i);
    has_more = has_more || ((set.permitted | set.inheritable) & ~mask) != 0;
    set.effective &= mask;
    set.permitted &= mask;
    set.inheritable &= mask;
  }
  // A service may be refused the call, and has nothing to drop.
  if (!has_more) return {};
  return ::syscall(SYS_capset, &header, sets.data()) == 0 ? std::string() : std::string(std::strerror(errno));
}

std::size_t threads_here() {
  std::error_code error;
  const fs::directory_iterator threads("/proc/self/task", error);
  return error ? 1 : static_cast<std::size_t>(std::distance(fs::begin(threads), fs::end(threads)));
}

void limit_paths(const SandboxPlan& plan, SandboxReport& report) {
  std::string why;
  const unsigned abi = landlock_abi(why);
  if (abi == 0) {
    report.missing.push_back(fmt::format("Landlock, so that all files of this user can be read and written: {}", why));
  } else if (const std::size_t threads = threads_here(); threads != 1) {
    report.missing.push_back(fmt::format("Landlock: the process has {} threads already", threads));
  } else if (const std::string failure = restrict_paths(plan, abi); !failure.empty()) {
    report.missing.push_back(fmt::format("Landlock: {}", failure));
  } else {
    report.landlock_abi = abi;
  }
}

// --- a trial
// ------------------------------------------------------------------------------------------------------------

// In a process of its own: two numbers, and a line for each thing that is missing.
[[noreturn]] void report_sandbox(const SandboxPlan& plan, int pipe) {
  try {
    const SandboxReport report = apply_sandbox(plan, Sandbox::on);
    const std::string text = fmt::format("{} {}\n{}\n", report.landlock_abi, report.filters_system_calls ? 1 : 0,
                                         join(report.missing, "\n"));
    (void)!::write(pipe, text.data(), text.size());
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

std::string all_of(int pipe) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(pipe, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

SandboxFacts find_sandbox_facts(const WorkerLoad& request) {
  const Machine& machine = Machine::this_one();
  const LoadOptions& options = request.options;
  SandboxFacts facts{.model_files = request.files,
                     .library_files = options.custom_operator_libraries,
                     .library_folders = library_folders(machine, options),
                     .cache_directory = cache_of(options),
                     .uses_accelerators = lower(options.provider) != "cpu" && has_device_files(),
                     .model_bytes = bytes_of(request.files),
                     .processors = usable_processors(machine),
                     .machine_bytes = usable_memory_bytes(machine),
                     .memory_bytes = options.memory_bytes,
                     .cache_address_bytes = facts_of(options).cache_address_bytes,
                     .has_sanitizer = has_sanitizer()};
  std::error_code ignored;  // the provider reports what it cannot write
  if (!facts.cache_directory.empty()) fs::create_directories(facts.cache_directory, ignored);
  return facts;
}

SandboxReport try_sandbox() {
  const SandboxPlan plan = plan_sandbox(find_sandbox_facts({}));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::internal, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorCode::internal, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) report_sandbox(plan, writing.get());
  writing.reset();
  const std::string text = all_of(reading.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::istringstream lines(text);
  SandboxReport report;
  int filters = 0;
  if (status != 0 || !(lines >> report.landlock_abi >> filters)) {
    throw Error(ErrorCode::internal, fmt::format("a process that applied a sandbox {}", describe_end(status)));
  }
  report.filters_system_calls = filters != 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) report.missing.push_back(line);
  }
  return report;
}

SandboxReport apply_sandbox(const SandboxPlan& plan, Sandbox sandbox) {
  SandboxReport report;
  // Last what the others need system calls for that it refuses.
  set_limits(plan, report);
  if (const std::string failure = drop_privileges(); !failure.empty()) {
    report.missing.push_back(fmt::format("dropping privileges: {}", failure));
  }
  limit_paths(plan, report);
  if (const std::string failure = filter_system_calls(); failure.empty()) {
    report.filters_system_calls = true;
  } else {
    report.missing.push_back(fmt::format("seccomp, so that programs can be started: {}", failure));
  }
  if (sandbox == Sandbox::strict && !report.missing.empty()) {
    throw Error(ErrorCode::usage, fmt::format("sandbox 'strict' is not possible here: missing: {}; accepted: on, off",
                                              join(report.missing, "; ")));
  }
  return report;
}

}  // namespace gpux::isolation
