#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ort/core_search.h"

namespace gpux::ort {

/// ONNX Runtime's oldest C interface that gpux works with (release 1.24).
inline constexpr std::uint32_t api_floor = 24;

/// The ONNX Runtime of this process: its library, its interface and its one environment. There is never a second one,
/// and it lives until the process ends.
class Core {
 public:
  /// Opens the first of `candidates` that works; where one is open already it is returned and `candidates` are not
  /// looked at. Thread-safe. Error provider_unavailable, with what was tried, where none works.
  static Core& open(const std::vector<CoreFile>& candidates);

  /// The open one, or null.
  static Core* current() noexcept;

  [[nodiscard]] const std::filesystem::path& library() const noexcept { return library_; }

  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }

  [[nodiscard]] const std::string& version() const noexcept { return version_; }

  /// Newest C interface it offers.
  [[nodiscard]] std::uint32_t api_version() const noexcept { return api_version_; }

  /// ONNX Runtime's names of the providers compiled into it or reached through its bridges.
  [[nodiscard]] std::vector<std::string> built_in_providers() const;

 private:
  Core() = default;
  static std::string try_open(const CoreFile& candidate, Core& core);

  std::filesystem::path library_;
  std::string origin_;
  std::string version_;
  std::uint32_t api_version_ = 0;
};

}  // namespace gpux::ort
