#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/scratch_folder.h"

namespace gpux::checkpoint {

/// How a causal language model that has no modules.json of sentence-transformers reads and scores a pair of texts.
enum class RerankerFormat : std::uint8_t {
  qwen3,  ///< as the model card of Qwen3-Reranker has it: logit("yes") - logit("no") behind its instruction
};

/// "qwen3"; empty: no such format.
std::optional<RerankerFormat> reranker_format_from(std::string_view name) noexcept;

/// For a folder whose architecture is a …ForCausalLM without modules.json: the format that its model card (README.md,
/// the first MiB) quotes, if that says `pipeline_tag: text-ranking`. Empty: it does not say so, or the folder is
/// another. Error invalid_model: it says so, and quotes no format that is known.
std::optional<RerankerFormat> reranker_format_in(const std::filesystem::path& folder);

/// A folder's files, with the settings of a format in place of its own: those that sentence-transformers has for such
/// models (modules.json, 1_LogitScore, chat_template.jinja).
class RerankerFolder {
 public:
  /// Errors usage (the folder has a modules.json, or is no causal language model), invalid_config (another family than
  /// the format's), invalid_model (its tokenizer lacks a token of the format), not_found, storage.
  RerankerFolder(const std::filesystem::path& folder, RerankerFormat format);

  [[nodiscard]] std::filesystem::path path() const { return scratch_.path() / "model"; }

 private:
  ScratchFolder scratch_;
};

}  // namespace gpux::checkpoint
