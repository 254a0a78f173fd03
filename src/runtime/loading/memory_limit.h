#pragma once

#include <functional>

#include "gpux/options.h"
#include "gpux/verdict.h"

namespace gpux::runtime {

/// Keeps a loaded model within LoadOptions::memory_bytes, if that is given. A provider that limits itself needs no
/// more. On processors `measure` compares the memory of this process with the limit. The memory of an accelerator
/// cannot be measured: the verdict gets a note that the limit is not enforced. Errors of `measure`;
/// provider_unavailable where the limit is not enforced and strict.
void keep_memory_limit(const LoadOptions& options, bool limited_by_provider, Verdict& verdict,
                       const std::function<void()>& measure);

}  // namespace gpux::runtime
