#include "plain/core.h"

#include <stdexcept>

#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>

namespace gpux::bench {

void use_core(const std::filesystem::path& core) {
  void* library = dlopen(core.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) throw std::runtime_error(dlerror());
  Ort::InitApi(get_base()->GetApi(ORT_API_VERSION));
}

}  // namespace gpux::bench
