#include "ort/lost_device.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/spelling.h"

namespace gpux::ort {
namespace {

// In lower case. The errors are those of which CUDA's driver_types.h says that they leave "the process in an
// inconsistent state and any further CUDA work will return the same error. To continue using CUDA, the process must be
// terminated and relaunched"; HIP has the same texts.
constexpr std::array<std::string_view, 10> texts{
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "unspecified launch failure",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "hardware stack error",
    "invalid program counter",
    "operation not supported on global/shared address space",
    "the launch timed out and was terminated",
};

constexpr std::array<std::string_view, 18> names{
    // CUDA's runtime and driver, HIP
    "cudaerrorillegaladdress",
    "cudaerrorassert",
    "cudaerrorlaunchfailure",
    "cudaerroreccuncorrectable",
    "cuda_error_illegal_address",
    "cuda_error_assert",
    "cuda_error_launch_failed",
    "cuda_error_ecc_uncorrectable",
    "hiperrorillegaladdress",
    "hiperrorassert",
    "hiperrorlaunchfailure",
    "hiperroreccnotcorrectable",
    // Vulkan, Level Zero, Direct3D
    "vk_error_device_lost",
    "ze_result_error_device_lost",
    "dxgi_error_device_removed",
    "dxgi_error_device_hung",
    "dxgi_error_device_reset",
    // WebGPU in ONNX Runtime
    "webgpu device lost",
};

// WebGPU's implementation Dawn, and providers in general.
constexpr std::array<std::string_view, 4> sentences{"device is lost", "device was lost", "device] is lost",
                                                    "device lost"};

// cudaError_t and hipError_t, where only the number is printed: "CUDA failure 700", as ONNX Runtime does.
constexpr std::array<std::string_view, 4> before_numbers{"cuda failure ", "cuda error ", "hip failure ", "hip error "};
constexpr std::array<std::string_view, 11> numbers{"214", "220", "700", "702", "710", "714",
                                                   "715", "716", "717", "718", "719"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool has_number(std::string_view text) {
  for (const std::string_view before : before_numbers) {
    for (std::size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at + 1)) {
      const std::string_view rest = text.substr(at + before.size());
      const auto end = std::ranges::find_if_not(rest, is_digit);
      const std::string_view number = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
      if (std::ranges::find(numbers, number) != numbers.end()) return true;
    }
  }
  return false;
}

}  // namespace

bool names_lost_device(std::string_view message) {
  const std::string text = lower(std::string(message));
  const auto is_in_text = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  return std::ranges::any_of(texts, is_in_text) || std::ranges::any_of(names, is_in_text) ||
         std::ranges::any_of(sentences, is_in_text) || has_number(text);
}

namespace {

// "Reshape node 'device lost': …" without what is in quotes. An apostrophe inside a word is none.
std::string without_quoted(std::string_view text) {
  std::string rest;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = text[at] == '\'' && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(');
    const std::size_t end = begins ? text.find('\'', at + 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      rest += text[at];
    } else {
      at = end;
    }
  }
  return rest;
}

}  // namespace

bool reports_lost_device(ErrorCode code, std::string_view message) {
  const bool is_about_provider = code == ErrorCode::provider_unavailable || code == ErrorCode::internal;
  return is_about_provider && names_lost_device(without_quoted(message));
}

bool is_lost_device(const Error& error) noexcept {
  return error.subject() != nullptr && error.subject()->kind == Subject::Kind::device;
}

}  // namespace gpux::ort
