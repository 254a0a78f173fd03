#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gpux::server {

/// What an engine of a model has to do now.
struct EngineLoad {
  std::size_t texts = 0;  ///< that it generates, and that wait
  std::size_t slots = 1;  ///< that it can generate at the same time
  bool is_usable = true;  ///< its device is
};

/// A number of the prompt's beginning, 64 tokens, and of the scope of its keys and values: the same one for the turns
/// of a conversation. Pure.
[[nodiscard]] std::uint64_t beginning_of(std::string_view scope, std::span<const std::uint32_t> prompt);

/// The index of the engine that gets a request: prompts that begin alike go to one, whose keys and values serve the
/// next, unless it has more to do than the one with the least, by more than a quarter of its slots. Where none is
/// usable, as if all were. `engines`: at least one. Pure.
[[nodiscard]] std::size_t choose_engine(std::span<const EngineLoad> engines, std::uint64_t beginning);

}  // namespace gpux::server
