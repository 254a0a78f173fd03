#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include <onnxruntime_cxx_api.h>
#include <sched.h>

namespace gpux_encoder {

/// How many threads of ONNX Runtime a run of the session can have: the session's configuration entry "gpux.threads",
/// which its host sets to the number of its intra-op threads, as ONNX Runtime tells providers nothing of these. Without
/// it, the processors that this process may use. Throws Ort::Exception for an entry that is no number from 1 to 65536.
inline std::size_t session_threads(const OrtSessionOptions* options) {
  constexpr std::string_view key = "gpux.threads";
  constexpr std::size_t most = 65536;
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &entries));
  for (const auto& [name, text] : Ort::KeyValuePairs(entries).GetKeyValuePairs()) {
    if (name != key) continue;
    std::size_t threads = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (error == std::errc() && end == text.data() + text.size() && threads >= 1 && threads <= most) return threads;
    throw Ort::Exception("session configuration entry 'gpux.threads' is '" + text + "'; accepted: 1 to 65536",
                         ORT_INVALID_ARGUMENT);
  }
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace gpux_encoder
