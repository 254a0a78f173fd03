#pragma once

#include "ort/api.h"

namespace gpux::ort {

#if ORT_API_VERSION < 24
/// A function of the library's API that is newer than the headers. It is after the last known entry of the same
/// table, whose order is part of ONNX Runtime's binary interface (onnxruntime_c_api.h: "new functions are appended to
/// the end"). The library must have the function: Core::open() takes none older than API 24, whose entries end at 414.
template <typename Function>
Function newer_entry(std::size_t index) {
  return reinterpret_cast<Function>(reinterpret_cast<void* const*>(&Ort::GetApi())[index]);
}
#endif

}  // namespace gpux::ort
