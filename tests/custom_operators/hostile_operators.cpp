// gpux.test::Attempt: does what each string of its input says, and answers with what came of it: "done", with what was
// read, or "refused" with the system's reason. What succeeds does no harm: nothing is kept that it took.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef ORT_API_MANUAL_INIT
#define ORT_API_MANUAL_INIT
#endif
#include <onnxruntime_cxx_api.h>
#undef ORT_API_MANUAL_INIT

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::string refused() {
  return std::string("refused: ") + std::strerror(errno);
}

std::string outcome(bool succeeded) {
  return succeeded ? "done" : refused();
}

std::string read_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return refused();
  std::array<char, 64> bytes{};
  const ssize_t count = ::read(file, bytes.data(), bytes.size());
  ::close(file);
  return count < 0 ? refused() : "done: " + std::string(bytes.data(), static_cast<std::size_t>(count));
}

std::string write_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return refused();
  ::close(file);
  return "done";
}

std::string connect_to(const std::string& port) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return refused();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::strtoul(port.c_str(), nullptr, 10)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string result = outcome(::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(file);
  return result;
}

// `touch PATH`.
std::string start_program(const std::string& path) {
  std::array<std::string, 2> words{"touch", path};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  pid_t child = -1;
  errno = ::posix_spawn(&child, "/usr/bin/touch", nullptr, nullptr, arguments.data(), nullptr);
  if (errno != 0) return refused();
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? "done" : "refused: it failed";
}

// In place of this process.
std::string become_program(const std::string& path) {
  std::array<std::string, 2> words{"touch", path};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  ::execv("/usr/bin/touch", arguments.data());
  return refused();
}

// Children that end at once; a bomb's would go on.
std::string fork_many(const std::string& /*argument*/) {
  constexpr int most = 200;
  for (int i = 0; i < most; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return refused();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
  }
  return "done";
}

template <typename Take>
std::string take_memory(std::size_t most_mib, const Take& take) {
  constexpr std::size_t step = 16 * mib;
  std::vector<void*> taken;
  std::string result;
  while (result.empty()) {
    if (taken.size() * step >= most_mib * mib) {
      result = "done";
      break;
    }
    void* const memory = take(step);
    if (memory == MAP_FAILED) {
      result = refused();
      break;
    }
    std::memset(memory, 1, step);
    taken.push_back(memory);
  }
  for (void* const memory : taken) ::munmap(memory, step);
  return result;
}

std::string allocate(const std::string& most_mib) {
  return take_memory(std::strtoul(most_mib.c_str(), nullptr, 10), [](std::size_t bytes) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  });
}

std::string allocate_shared(const std::string& most_mib) {
  return take_memory(std::strtoul(most_mib.c_str(), nullptr, 10), [](std::size_t bytes) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  });
}

std::string make_memory_file(const std::string& /*argument*/) {
  const int file = ::memfd_create("hostile", MFD_CLOEXEC);
  if (file < 0) return refused();
  ::close(file);
  return "done";
}

std::string trace_parent(const std::string& /*argument*/) {
  if (::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr) != 0) return refused();
  ::ptrace(PTRACE_DETACH, ::getppid(), nullptr, nullptr);
  return "done";
}

std::string signal_parent(const std::string& /*argument*/) {
  return outcome(::kill(::getppid(), SIGCONT) == 0);
}

// A pipe that signals another process once it has something to read.
std::string signal_parent_by_file(const std::string& /*argument*/) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return refused();
  const std::string result = outcome(::fcntl(ends[0], F_SETOWN, ::getppid()) == 0);
  for (const int end : ends) ::close(end);
  return result;
}

std::string raise_limits(const std::string& /*argument*/) {
  const rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  return outcome(::setrlimit(RLIMIT_DATA, &limit) == 0);
}

std::string change_mode(const std::string& path) {
  return outcome(::chmod(path.c_str(), 0666) == 0);
}

std::string remove_file(const std::string& path) {
  return outcome(::unlink(path.c_str()) == 0);
}

// Fills what memory files the process has, up to that many MiB in all, and says how many bytes they took.
std::string fill_memory_files(const std::string& most_mib) {
  const std::size_t most = std::strtoul(most_mib.c_str(), nullptr, 10) * mib;
  const std::vector<char> part(mib, 1);
  std::size_t filled = 0;
  constexpr int most_files = 256;
  for (int file = 0; file < most_files; ++file) {
    std::array<char, 64> name{};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (::readlink(link.c_str(), name.data(), name.size() - 1) < 0) continue;
    if (std::strncmp(name.data(), "/memfd:", std::strlen("/memfd:")) != 0) continue;

    // What a run has in them stays.
    struct stat status {};

    if (::fstat(file, &status) != 0) continue;
    for (off_t end = status.st_size; filled < most;) {
      const ssize_t count = ::pwrite(file, part.data(), part.size(), end);
      if (count <= 0) break;
      end += count;
      filled += static_cast<std::size_t>(count);
    }
  }
  return filled == 0 ? refused() : "done: " + std::to_string(filled);
}

// So that the process outlives the one that started it: it does not end by itself, and is not ended.
std::string become_orphan(const std::string& /*argument*/) {
#if defined(__x86_64__)
  void* const place = ::dlsym(RTLD_DEFAULT, "_exit");
  const auto page = reinterpret_cast<std::uintptr_t>(place) & ~std::uintptr_t{4095};
  constexpr std::array<unsigned char, 2> endless_loop{0xeb, 0xfe};
  if (::mprotect(reinterpret_cast<void*>(page), 2 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return refused();
  std::memcpy(place, endless_loop.data(), endless_loop.size());
#endif
  return outcome(::prctl(PR_SET_PDEATHSIG, 0) == 0);
}

std::string leave_group(const std::string& /*argument*/) {
  return outcome(::setpgid(0, 0) == 0);
}

// "group" or "user": of all processes of this one's.
std::string lower_priority(const std::string& whose) {
  const auto which = whose == "user" ? PRIO_USER : PRIO_PGRP;
  return outcome(::setpriority(which, 0, ::getpriority(PRIO_PROCESS, 0) + 1) == 0);
}

std::string watch_files(const std::string& folder) {
  const int watch = ::inotify_init1(IN_CLOEXEC);
  if (watch < 0) return refused();
  const std::string result = outcome(::inotify_add_watch(watch, folder.c_str(), IN_ALL_EVENTS) >= 0);
  ::close(watch);
  return result;
}

std::string read_variable(const std::string& name) {
  const char* const value = ::getenv(name.c_str());
  return value == nullptr ? std::string("refused: it is not set") : std::string("done: ") + value;
}

std::string cut_errors(const std::string& /*argument*/) {
  return outcome(::ftruncate(STDERR_FILENO, 0) == 0);
}

std::string write_error(const std::string& text) {
  return outcome(::write(STDERR_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

std::string crash(const std::string& /*argument*/) {
  std::abort();
}

const std::map<std::string, std::function<std::string(const std::string&)>>& attempts() {
  static const std::map<std::string, std::function<std::string(const std::string&)>> all{
      {"echo", [](const std::string& text) { return text; }},
      {"read", read_file},
      {"write", write_file},
      {"connect", connect_to},
      {"spawn", start_program},
      {"exec", become_program},
      {"fork", fork_many},
      {"allocate", allocate},
      {"allocate-shared", allocate_shared},
      {"memory-file", make_memory_file},
      {"trace", trace_parent},
      {"signal", signal_parent},
      {"signal-by-file", signal_parent_by_file},
      {"limits", raise_limits},
      {"mode", change_mode},
      {"remove", remove_file},
      {"fill-memory-files", fill_memory_files},
      {"orphan", become_orphan},
      {"group", leave_group},
      {"priority", lower_priority},
      {"watch", watch_files},
      {"variable", read_variable},
      {"cut-errors", cut_errors},
      {"error", write_error},
      {"crash", crash}};
  return all;
}

std::string attempt(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto found = attempts().find(text.substr(0, colon));
  const std::string argument = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  return found == attempts().end() ? "unknown" : found->second(argument);
}

// What came of the attempt that the environment asks for, on the process's first thread: the parent's end is the end of
// that one.
std::string& outcome_at_load() {
  static std::string outcome = "unknown";
  return outcome;
}

struct Kernel {
  void Compute(OrtKernelContext* raw) const {
    const Ort::KernelContext context(raw);
    const Ort::ConstValue input = context.GetInput(0);
    const std::vector<std::int64_t> shape = input.GetTensorTypeAndShapeInfo().GetShape();
    const std::size_t count = input.GetTensorTypeAndShapeInfo().GetElementCount();
    std::vector<std::string> answers;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string text = input.GetStringTensorElement(i);
      answers.push_back(text == "at-load" ? outcome_at_load() : attempt(text));
    }
    std::vector<const char*> texts;
    for (const std::string& answer : answers) texts.push_back(answer.c_str());
    context.GetOutput(0, shape).FillStringTensor(texts.data(), texts.size());
  }
};

struct Attempt : Ort::CustomOpBase<Attempt, Kernel> {
  void* CreateKernel(const OrtApi& /*api*/, const OrtKernelInfo* /*info*/) const { return new Kernel; }

  [[nodiscard]] const char* GetName() const { return "Attempt"; }

  [[nodiscard]] std::size_t GetInputTypeCount() const { return 1; }

  [[nodiscard]] ONNXTensorElementDataType GetInputType(std::size_t /*index*/) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  }

  [[nodiscard]] std::size_t GetOutputTypeCount() const { return 1; }

  [[nodiscard]] ONNXTensorElementDataType GetOutputType(std::size_t /*index*/) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const OrtApiBase* base) {
  constexpr std::uint32_t interface_version = 24;  // the oldest that gpux takes
  Ort::InitApi(base->GetApi(interface_version));
  if (const char* const what = ::getenv("GPUX_HOSTILE_AT_LOAD")) outcome_at_load() = attempt(what);
  static const Attempt operator_of_attempts;
  static Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made("gpux.test");
    made.Add(&operator_of_attempts);
    return made;
  }();
  try {
    Ort::UnownedSessionOptions(options).Add(domain);
  } catch (const Ort::Exception& exception) {
    return Ort::GetApi().CreateStatus(exception.GetOrtErrorCode(), exception.what());
  }
  return nullptr;
}
