#pragma once

#include <filesystem>

namespace gpux::bench {

/// Lets ONNX Runtime's C++ interface use this library, as gpux has opened it. Throws std::runtime_error.
void use_core(const std::filesystem::path& core);

}  // namespace gpux::bench
