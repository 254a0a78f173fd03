#include "embedding/output_choice.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::embedding {
namespace {

constexpr std::array<std::string_view, 3> pooled_names{"sentence_embedding", "dense_vecs", "dense_embeddings"};
constexpr std::array<std::string_view, 3> sparse_names{"sparse_embedding", "sparse_embeddings", "sparse_vecs"};
constexpr std::array<std::string_view, 3> late_interaction_names{"token_embeddings", "contextual", "last_hidden_state"};
constexpr std::array<std::string_view, 2> token_names{"last_hidden_state", "token_embeddings"};

// transformers' definitions of the vector of a text; a name that begins with another comes before it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> defined_outputs{{
    {"CLIPTextModelWithProjection", "text_embeds"},
    {"CLIPTextModel", "pooler_output"},
    {"CLIPModel", "text_embeds"},
    {"ChineseCLIPModel", "text_embeds"},
    {"AltCLIPModel", "text_embeds"},
    {"ClapModel", "text_embeds"},
    {"Siglip", "pooler_output"},
    {"DPR", "pooler_output"},
}};

bool is_float(const ValueType& type) {
  return type.kind == ValueKind::tensor &&
         (type.element == ElementType::float32 || type.element == ElementType::float16 ||
          type.element == ElementType::bfloat16);
}

// Where the file does not declare the rank, the name alone counts.
bool can_have_rank(const SignatureEntry& entry, std::size_t rank) {
  return is_float(entry.type) && (!entry.type.dimensions || entry.type.dimensions->size() == rank);
}

const SignatureEntry* named(const std::vector<SignatureEntry>& outputs, std::string_view name, std::size_t rank) {
  const auto found = std::ranges::find_if(
      outputs, [&](const SignatureEntry& entry) { return entry.name == name && can_have_rank(entry, rank); });
  return found == outputs.end() ? nullptr : &*found;
}

template <std::size_t count>
const SignatureEntry* first_named(const std::vector<SignatureEntry>& outputs,
                                  const std::array<std::string_view, count>& names, std::size_t rank) {
  for (const std::string_view name : names) {
    if (const SignatureEntry* found = named(outputs, name, rank)) return found;
  }
  return nullptr;
}

// Why an output of rank 3 with a name of its own does not hold the vectors of tokens; empty: it may.
std::string problem_of(const SignatureEntry& entry, std::uint64_t vocabulary) {
  const std::string name = lower(entry.name);
  if (name.find("logits") != std::string::npos || name.find("scores") != std::string::npos) return "scores";
  if (name.starts_with("sparse")) return "weights of words";
  if (name.starts_with("colbert")) return "vectors for late interaction";
  if (!entry.type.dimensions || entry.type.dimensions->empty()) return {};
  const auto width = entry.type.dimensions->back().size;
  return width ? width_problem(*width, vocabulary) : std::string();
}

[[noreturn]] void refuse(const std::string& why, const std::vector<SignatureEntry>& outputs, std::uint64_t vocabulary) {
  std::vector<std::string> met;
  for (const SignatureEntry& entry : outputs) {
    std::string text = fmt::format("{} {}", entry.name, to_string(entry.type));
    const bool has_tokens = is_float(entry.type) && entry.type.dimensions && entry.type.dimensions->size() == 3;
    const std::string problem = has_tokens ? problem_of(entry, vocabulary) : "";
    if (!problem.empty()) text += fmt::format(" ({})", problem);
    met.push_back(std::move(text));
  }
  throw Error(ErrorCode::invalid_model,
              fmt::format("{}; the model has {}; accepted: sentence_embedding, dense_vecs or text_embeds of "
                          "[batch, width], or last_hidden_state, token_embeddings or one other output of [batch, "
                          "sequence, width], as float32, float16 or bfloat16",
                          why, join(met)));
}

// "logits float32[batch, sequence, 30522], …"
std::string listed(const std::vector<SignatureEntry>& outputs) {
  std::vector<std::string> all;
  for (const SignatureEntry& entry : outputs) all.push_back(fmt::format("{} {}", entry.name, to_string(entry.type)));
  return join(all);
}

// The only output of rank 3; null where there is none, or there are several.
const SignatureEntry* only_of_tokens(const std::vector<SignatureEntry>& outputs) {
  const SignatureEntry* found = nullptr;
  for (const SignatureEntry& entry : outputs) {
    if (!is_float(entry.type) || !entry.type.dimensions || entry.type.dimensions->size() != 3) continue;
    if (found != nullptr) return nullptr;
    found = &entry;
  }
  return found;
}

}  // namespace

std::string choose_sparse_output(const std::vector<SignatureEntry>& outputs, const OutputFacts& facts,
                                 bool is_declared) {
  for (const std::string_view name : sparse_names) {
    for (const std::size_t rank : {std::size_t{2}, std::size_t{3}}) {
      if (const SignatureEntry* found = named(outputs, name, rank)) return found->name;
    }
  }
  if (!is_declared && !facts.architecture.ends_with("ForMaskedLM")) return {};
  if (const SignatureEntry* found = named(outputs, "logits", 3)) return found->name;
  const SignatureEntry* only = only_of_tokens(outputs);
  const auto width = only == nullptr || !only->type.dimensions ? std::nullopt : only->type.dimensions->back().size;
  if (width && facts.vocabulary != 0 && *width >= static_cast<std::int64_t>(facts.vocabulary)) return only->name;
  if (!is_declared) return {};
  throw Error(ErrorCode::invalid_model,
              fmt::format("modules.json names a SpladePooling, and no output holds scores of the vocabulary; the model "
                          "has {}; accepted: sparse_embedding of [batch, vocabulary], or logits of [batch, sequence, "
                          "vocabulary]",
                          listed(outputs)));
}

std::string choose_multi_vector_output(const std::vector<SignatureEntry>& outputs, const OutputFacts& facts,
                                       bool is_declared) {
  if (const SignatureEntry* found = named(outputs, "colbert_vecs", 3)) return found->name;
  if (!is_declared) return {};
  if (const SignatureEntry* found = first_named(outputs, late_interaction_names, 3)) return found->name;
  const SignatureEntry* only = only_of_tokens(outputs);
  if (only != nullptr && problem_of(*only, facts.vocabulary).empty()) return only->name;
  throw Error(ErrorCode::invalid_model,
              fmt::format("it is a late-interaction model, and no output holds a vector per token; the model has {}; "
                          "accepted: token_embeddings, colbert_vecs, contextual or one other output of [batch, "
                          "sequence, width]",
                          listed(outputs)));
}

std::string width_problem(std::int64_t width, std::uint64_t vocabulary) {
  if (width == 1) return "one number per token";
  if (vocabulary != 0 && width >= static_cast<std::int64_t>(vocabulary)) return "scores of the vocabulary";
  return {};
}

OutputChoice choose_output(const std::vector<SignatureEntry>& outputs, const OutputFacts& facts) {
  const SignatureEntry* tokens = first_named(outputs, token_names, 3);
  std::vector<const SignatureEntry*> others;
  for (const SignatureEntry& entry : outputs) {
    const bool has_shape = is_float(entry.type) && entry.type.dimensions && entry.type.dimensions->size() == 3;
    if (has_shape && problem_of(entry, facts.vocabulary).empty()) others.push_back(&entry);
  }
  OutputChoice choice;
  if (tokens != nullptr) {
    choice.token_vectors = tokens->name;
  } else if (others.size() == 1) {
    choice.token_vectors = others.front()->name;
  }
  const auto pooled = [&](const SignatureEntry& entry) {
    choice.name = entry.name;
    choice.is_pooled = true;
    return choice;
  };
  const auto of_tokens = [&](bool is_known) {
    choice.name = choice.token_vectors;
    choice.is_known = is_known;
    return choice;
  };

  if (const SignatureEntry* found = first_named(outputs, pooled_names, 2)) return pooled(*found);
  if (facts.declares_pooling && facts.can_pool && tokens != nullptr) return of_tokens(true);
  const auto* const defined =
      std::ranges::find_if(defined_outputs, [&](const auto& row) { return facts.architecture.starts_with(row.first); });
  if (defined != defined_outputs.end()) {
    if (const SignatureEntry* found = named(outputs, defined->second, 2)) return pooled(*found);
    refuse(fmt::format("the vector of a text of config.json's {} is its output '{}' of rank 2", facts.architecture,
                       defined->second),
           outputs, facts.vocabulary);
  }
  if (const SignatureEntry* found = named(outputs, "text_embeds", 2)) return pooled(*found);
  if (!facts.can_pool) {
    refuse("modules.json names no Pooling, and no output holds one vector per text", outputs, facts.vocabulary);
  }
  if (tokens != nullptr) return of_tokens(true);
  if (others.size() == 1) return of_tokens(false);
  if (others.size() > 1) {
    refuse("several outputs may hold the vectors of the tokens, and none is called last_hidden_state", outputs,
           facts.vocabulary);
  }
  if (!facts.declares_pooling) {
    if (const SignatureEntry* found = named(outputs, "pooler_output", 2)) return pooled(*found);
  }
  refuse("no output holds vectors of texts", outputs, facts.vocabulary);
}

}  // namespace gpux::embedding
