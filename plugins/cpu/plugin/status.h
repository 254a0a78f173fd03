#pragma once

#include <exception>
#include <string>

#include <onnxruntime_cxx_api.h>

#include "kernels/run_failure.h"
#include "plugin/provider_description.h"

namespace gpux_cpu {

/// Runs `work` and turns whatever it throws into a status that ONNX Runtime owns; null where it throws nothing. An
/// exception that leaves a callback ends the host's process. An invalid input is the caller's fault, all else the
/// provider's. Needs Ort::InitApi to have been called.
template <typename Work>
OrtStatus* as_status(Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const InvalidInput& error) {
    return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, error.what());
  } catch (const Stopped&) {
    // In ONNX Runtime's own words, which its callers know.
    return Ort::GetApi().CreateStatus(ORT_FAIL, "Exiting due to terminate flag being set to true.");
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, error.what());
  } catch (...) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL,
                                      (std::string("unknown exception in ") + provider_description().name).c_str());
  }
}

}  // namespace gpux_cpu
