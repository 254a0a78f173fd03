#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/verdict.h"
#include "server/models/served_model.h"
#include "server/models/text_ability.h"

namespace gpux::server {

/// Pooling, dimension and prompts of a model that embeds texts, as its metadata reports them.
struct EncoderDescription {
  std::string pooling;         ///< "mean", "cls+mean"; empty: the ONNX file pools
  std::size_t dimension = 0;   ///< of a vector
  std::size_t max_tokens = 0;  ///< of a text, with the special ones; 0: no limit
  std::vector<std::string> prompts;
};

/// Metadata of a model that does not need its session: answers metadata requests also while the model is evicted.
struct ModelDescription {
  std::string name, version;
  Signature signature;  ///< what callers give and get
  ModelInfo info;       ///< of the ONNX file
  Verdict verdict;      ///< of the last session
  ServingOptions options;
  bool can_batch = false;
  std::optional<EncoderDescription> encoder;  ///< empty: it makes no vectors of texts
  std::string family;                         ///< ServedModel::family()
  std::string digest;                         ///< ServedModel::digest()
  std::vector<TextAbility> abilities;
  std::size_t context_length = 0;  ///< tokens of a prompt and its text; 0: it generates none
  std::shared_ptr<const ModelStatistics> statistics;

  [[nodiscard]] bool is_able(TextAbility ability) const noexcept;
};

std::shared_ptr<ModelDescription> describe(const ServedModel& model);

/// The most tokens that a run of a text model holds, padding counted; empty: nothing limits them.
std::optional<std::uint64_t> max_batch_tokens(const ServingOptions& options, bool can_batch,
                                              std::size_t max_tokens) noexcept;

}  // namespace gpux::server
