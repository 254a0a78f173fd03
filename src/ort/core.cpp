#include "ort/core.h"

#include <atomic>
#include <cstdio>
#include <mutex>

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "ort/api.h"
#include "ort/installed_providers.h"
#include "ort/message.h"

namespace gpux::ort {
namespace {

std::atomic<Core*> opened{nullptr};
Ort::Env* process_environment = nullptr;

void ORT_API_CALL take_message(void* /*unused*/, OrtLoggingLevel severity, const char* category, const char* /*id*/,
                               const char* /*location*/, const char* message) {
  const bool grave = severity >= ORT_LOGGING_LEVEL_ERROR;
  if (grave) {
    remember_logged_error(message);
    log::info("onnxruntime {}: {}", category, message);
  } else {
    if (severity == ORT_LOGGING_LEVEL_WARNING) remember_remark(message);
    log::debug("onnxruntime {}: {}", category, message);
  }
}

}  // namespace

Ort::Env& environment() {
  return *process_environment;
}

Core* Core::current() noexcept {
  return opened.load(std::memory_order_acquire);
}

std::string Core::try_open(const CoreFile& candidate, Core& core) {
  std::string failure;
  const auto library = DynamicLibrary::open(candidate.library, failure);
  if (!library) return failure;
  using GetApiBase = const OrtApiBase*(ORT_API_CALL*)();
  const auto get_base = reinterpret_cast<GetApiBase>(library->symbol("OrtGetApiBase"));
  const OrtApiBase* base = get_base == nullptr ? nullptr : get_base();
  if (base == nullptr) return "has no OrtGetApiBase";
  // Release 1.N offers the interfaces 1 to N. Asking for one that is not there prints to stderr.
  unsigned minor = 0;
  std::sscanf(base->GetVersionString(), "1.%u", &minor);
  if (minor < api_floor || base->GetApi(api_floor) == nullptr) {
    return fmt::format("is ONNX Runtime {}, older than the 1.{} that gpux needs", base->GetVersionString(), api_floor);
  }
  core.api_version_ = minor;
  const std::uint32_t wanted = ORT_API_VERSION;
  Ort::InitApi(base->GetApi(std::min(wanted, core.api_version_)));
  core.library_ = candidate.library;
  core.origin_ = candidate.origin;
  core.version_ = base->GetVersionString();
  return {};
}

Core& Core::open(const std::vector<CoreFile>& candidates) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (Core* core = current()) return *core;
  std::string tried;
  for (const CoreFile& candidate : candidates) {
    Core attempt;
    const std::string failure = try_open(candidate, attempt);
    if (!failure.empty()) {
      tried += fmt::format("; '{}' {}", candidate.library.string(), failure);
      continue;
    }
    const OrtLoggingLevel level = log::enabled(log::Level::debug) ? ORT_LOGGING_LEVEL_WARNING : ORT_LOGGING_LEVEL_ERROR;
    try {
      // Never freed: providers keep threads that outlive main().
      process_environment = new Ort::Env(level, "gpux", take_message, nullptr);
      process_environment->DisableTelemetryEvents();
    } catch (const Ort::Exception& exception) {
      throw translate(exception).within("starting ONNX Runtime");
    }
    hold_installation_of(candidate.library);
    opened.store(new Core(std::move(attempt)), std::memory_order_release);
    log::debug("opened ONNX Runtime {} from {}", current()->version(), current()->library().string());
    return *current();
  }
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("no ONNX Runtime 1.{} or newer found{}; install one ('gpux providers install cpu'), or set "
                          "GPUX_ONNXRUNTIME to its library",
                          api_floor, tried));
}

std::vector<std::string> Core::built_in_providers() const {
  return Ort::GetAvailableProviders();
}

}  // namespace gpux::ort
