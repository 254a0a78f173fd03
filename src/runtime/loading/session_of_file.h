#pragma once

#include <filesystem>

#include "ort/session.h"

namespace gpux::runtime {

/// A session of the ONNX file, with external data that ONNX Runtime would not take from where it is included. A
/// StringNormalizer whose English locale this machine does not have (slim containers have none) gets C.UTF-8, whose
/// letters have the same cases. Errors as of ort::Session::from_file() and onnx::with_included_data().
ort::Session session_of_file(const std::filesystem::path& file, const ort::SessionSettings& settings);

}  // namespace gpux::runtime
