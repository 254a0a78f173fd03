#pragma once

#include <set>
#include <string>

#include "onnx/stored_caches.h"
#include "ort/session.h"

namespace gpux::runtime {

/// Result of try_cached_attention(): how the providers of a session compute a decoder's attention.
struct CacheTrial {
  bool needs_float16 = false;  ///< they compute it in float16, and leave float32 to the CPU
  std::string defect;          ///< why it is not used nevertheless; empty: it is right
};

/// Runs an example with attentions of these forms on the providers of the settings where these take it in float16
/// alone, and compares: a few tokens and more than a tile of a kernel has, and a token after each. Where no session can
/// be made, nothing is needed.
CacheTrial try_cached_attention(const std::set<onnx::CachedAttentionForm>& forms, ort::SessionSettings settings);

}  // namespace gpux::runtime
