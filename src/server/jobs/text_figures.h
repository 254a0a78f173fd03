#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "gpux/verdict.h"
#include "server/http/message.h"

namespace gpux::server {

/// Counts and times of the texts of one request, summed: each is tokenized, waits and runs by itself.
struct TextFigures {
  std::size_t texts = 0;       ///< or pairs of them
  std::size_t characters = 0;  ///< Unicode code points, as the texts were given
  std::size_t tokens = 0;      ///< as they went into the model, with the special ones
  std::chrono::nanoseconds tokenization{0};
  std::chrono::nanoseconds queue{0};
  std::chrono::nanoseconds inference{0};
};

/// Adds the headers of text-embeddings-inference: X-Compute-Type, the counts, and times in whole milliseconds.
/// Tokenization, queue and inference are the mean of the texts, so that together they are within the total, which
/// counts from `arrived`.
void add_text_headers(http::Response& response, const TextFigures& figures, const std::string& compute_type,
                      std::chrono::steady_clock::time_point arrived);

/// The kind of device that holds most nodes: "cpu", "gpu" or "npu".
std::string compute_type_of(const Verdict& verdict);

/// Code points of a text in UTF-8.
std::size_t count_characters(std::string_view text) noexcept;

}  // namespace gpux::server
