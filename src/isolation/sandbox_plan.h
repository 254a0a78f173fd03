#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::isolation {

/// What decides what a worker needs.
struct SandboxFacts {
  std::vector<std::filesystem::path> model_files;
  std::vector<std::filesystem::path> library_files;  ///< libraries of custom operators
  std::vector<std::filesystem::path>
      library_folders;  ///< folders of ONNX Runtime, of providers, and of the libraries that they depend on
  std::filesystem::path cache_directory;  ///< for compiled engines; empty: none
  bool uses_accelerators = true;          ///< false: the CPU is all that is requested
  std::uint64_t model_bytes = 0;
  unsigned processors = 0;                    ///< that this process may use: about as many threads
  std::uint64_t machine_bytes = 0;            ///< memory that this process may use
  std::optional<std::uint64_t> memory_bytes;  ///< LoadOptions::memory_bytes
  std::uint64_t cache_address_bytes = 0;      ///< LoadFacts::cache_address_bytes
  bool has_sanitizer = false;                 ///< it takes more memory than any limit allows
};

/// What a worker may use. Paths that do not exist are left out when it is applied.
struct SandboxPlan {
  std::vector<std::filesystem::path> readable;  ///< files, and folders with all that is below
  std::vector<std::filesystem::path> writable;  ///< likewise; files may be made and removed there
  std::vector<std::filesystem::path> devices;   ///< to read, to write and to control
  std::optional<std::uint64_t> memory_bytes;    ///< that the process may write to; empty: no limit
  /// More that it may reserve. Keys and values of texts are laid out with room for the longest ones; what they take is
  /// what gpux puts there.
  std::uint64_t cache_address_bytes = 0;
  std::uint64_t max_open_files = 4096;
  std::uint64_t max_more_threads = 4096;  ///< than the user has when it is applied
};

/// Pure.
SandboxPlan plan_sandbox(const SandboxFacts& facts);

/// Whether a worker gets this variable of the environment: those of the system, of gpux, ONNX Runtime and providers,
/// and nothing that is called a key, token, password or the like. Pure.
bool sandbox_keeps_variable(std::string_view name);

/// What was applied, for the verdict.
struct SandboxReport {
  unsigned landlock_abi = 0;  ///< 0: no Landlock
  bool filters_system_calls = false;
  std::optional<std::uint64_t> memory_bytes;
  std::vector<std::string> missing;  ///< each as a sentence without its end
};

/// "sandboxed: Landlock ABI 7, seccomp, memory at most 4.2 GiB, results at most 4.2 GiB; missing: …". Pure.
std::string to_line(const SandboxReport& report);

}  // namespace gpux::isolation
