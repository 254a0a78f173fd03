#include "generation/prompt_choice.h"

#include <algorithm>
#include <tuple>

namespace gpux::generation {
namespace {

std::size_t common_tokens(std::span<const std::uint32_t> one, std::span<const std::uint32_t> other) {
  return static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
}

}  // namespace

std::optional<StoredMatch> longest_stored(std::span<const StoredBeginning> stored, std::string_view scope,
                                          std::span<const std::uint32_t> prompt) {
  std::optional<StoredMatch> best;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].scope != scope) continue;
    const std::size_t tokens = common_tokens(stored[i].tokens, prompt);
    if (tokens > (best ? best->tokens : 0)) best = StoredMatch{i, tokens};
  }
  return best;
}

std::size_t tokens_to_store(const ComputedPrompt& prompt) noexcept {
  const bool is_first = prompt.stored < least_stored_tokens;
  const std::size_t wanted = is_first || prompt.goes_on ? prompt.tokens : prompt.shared;
  const std::size_t known = is_first ? 0 : prompt.stored;
  return wanted >= known + least_stored_tokens ? wanted : 0;
}

std::vector<std::size_t> replaced_by(std::span<const StoredBeginning> stored, std::string_view scope,
                                     std::span<const std::uint32_t> tokens) {
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].scope != scope || stored[i].tokens.size() >= tokens.size()) continue;
    if (common_tokens(stored[i].tokens, tokens) == stored[i].tokens.size()) replaced.push_back(i);
  }
  return replaced;
}

std::vector<KeptFile> files_to_remove(std::vector<KeptFile> files, std::uint64_t limit_bytes,
                                      std::uint64_t added_bytes) {
  std::ranges::sort(files, {}, [](const KeptFile& file) { return std::tie(file.last_use, file.name); });
  std::uint64_t bytes = added_bytes;
  for (const KeptFile& file : files) bytes += file.bytes;
  std::size_t count = 0;
  for (; count < files.size() && bytes > limit_bytes; ++count) bytes -= files[count].bytes;
  files.resize(count);
  return files;
}

}  // namespace gpux::generation
