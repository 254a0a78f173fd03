#include "embedding/level.h"

#include <algorithm>
#include <array>

#include "base/spelling.h"

namespace gpux::embedding {
namespace {

// Dimensions, poolings and lengths: config.json, 1_Pooling and sentence_bert_config.json of the models.
constexpr std::array<Level, 3> all{{
    {"low", "paraphrase-MiniLM-L3-v2", 384, gpux::Pooling::mean, 128, true},
    {"medium", "paraphrase-MiniLM-L6-v2", 384, gpux::Pooling::mean, 128, true},
    {"high", "all-mpnet-base-v2", 768, gpux::Pooling::mean, 384, true},
}};

}  // namespace

std::span<const Level> levels() noexcept {
  return all;
}

const Level* level_from(std::string_view name) noexcept {
  const std::string word = lower(name);
  for (const Level& level : all) {
    if (level.name == word || (word == "med" && level.name == "medium")) return &level;
  }
  return nullptr;
}

const Level* level_below(const Level& level) noexcept {
  const auto place = static_cast<std::size_t>(&level - all.data());
  return place == 0 ? nullptr : &all.at(place - 1);
}

std::string stored_name(const Level& level) {
  return lower(level.model);
}

void apply_level(const Level& level, checkpoint::SentenceModel& model) {
  std::error_code unreadable;
  const bool says = std::filesystem::exists(model.tokenizer_file.parent_path() / "modules.json", unreadable);
  if (!says) {
    model.poolings = {level.pooling};
    model.declares_pooling = true;
    model.max_tokens = model.max_tokens == 0 ? level.max_tokens : std::min(model.max_tokens, level.max_tokens);
  }
  model.normalize = level.normalize;
}

}  // namespace gpux::embedding
