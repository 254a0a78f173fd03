#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::provider {

/// Systems whose habits differ.
enum class System : unsigned char { linux_, macos, windows };
System this_system() noexcept;

/// What somebody asked for, understood.
struct Request {
  enum class Form : unsigned char { automatic, kind, single, list, fastest };
  Form form = Form::automatic;
  std::vector<std::string> ids;      ///< kind: "gpu" or "npu"; single: one id; list: ids in order
  std::string text = "auto";         ///< as asked for
  std::vector<std::string> remarks;  ///< said once: "rocm: …"
};

/// Reads "auto", "fastest", "gpu", "npu", a provider, or a list "tensorrt,cuda,cpu". Providers are known by id, alias,
/// ONNX Runtime's name, or one of `own_names` (the user's own libraries). A trailing comma makes a list of one name.
/// Error usage, with what would be accepted and the nearest name.
Request parse_request(std::string_view text, const std::vector<std::string>& own_names = {});

/// The ids that the request may use, in order. A single name is followed by its chain and the CPU; a list is just
/// itself; auto and gpu are every accelerator of the system's order, then the CPU. `own_names`: plugins of no row; they
/// are considered after the rows by auto, gpu, npu and fastest, as nothing is known of them but their devices.
std::vector<std::string> order_of(const Request& request, System system, std::span<const std::string> own_names = {});

}  // namespace gpux::provider
