#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "embedding/dense.h"
#include "embedding/pooling.h"
#include "embedding/sentence_encoder.h"
#include "gpux/error.h"
#include "tensor/convert.h"

/// What SentenceEncoder does for sparse vectors and for late interaction.
namespace gpux::embedding {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_model, message);
}

void require_finite(std::span<const float> numbers, const std::string& output) {
  if (std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) return;
  refuse(fmt::format("output '{}' has NaN or infinite numbers: the model does not hold in the precision it runs in",
                     output));
}

void sort_unique(std::vector<std::uint32_t>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
}

/// A prompt whose first word, or all of it, is a token that is inserted.
struct Marker {
  std::optional<std::uint32_t> token;
  std::string_view rest;  ///< of the prompt, which is spelled
};

Marker marker_in(std::string_view prompt, const text::Tokenizer& tokenizer) {
  const std::string_view word = prompt.substr(0, prompt.find(' '));
  for (const std::string_view piece : {prompt, word}) {
    if (piece.empty()) continue;
    if (const auto id = tokenizer.id(piece)) {
      std::string_view rest = prompt.substr(piece.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      return {.token = id, .rest = rest};
    }
  }
  return {.token = std::nullopt, .rest = prompt};
}

}  // namespace

bool SentenceEncoder::represents(Representation representation) const noexcept {
  switch (representation) {
    case Representation::dense:
      return !choice_.name.empty();
    case Representation::sparse:
      return !sparse_output_.empty();
    case Representation::multi_vector:
      return !multi_vector_output_.empty();
  }
  return false;
}

Representation SentenceEncoder::default_representation() const noexcept {
  for (const auto& [representation, name] : representation_names) {
    if (represents(representation)) return representation;
  }
  return Representation::dense;
}

void SentenceEncoder::find_outputs(const Signature& signature) {
  if (model_.scores_pairs)
    refuse("modules.json names a LogitScore: the model scores pairs of texts and makes no vectors");
  if (model_.vocabulary == 0) model_.vocabulary = tokenizer_.vocabulary_size();
  for (const SignatureEntry& entry : signature.outputs) outputs_.push_back(entry.name);
  if (inputs_.takes_past() && std::ranges::find(outputs_, "logits") != outputs_.end()) {
    refuse(
        "the model generates text: 'gpux generate' runs it; accepted: an ONNX file with the output last_hidden_state, "
        "or sentence-transformers' folders of safetensors (modules.json)");
  }
  // The mean, which counts without a word of the folder, is not what decoders are trained for.
  if (inputs_.takes_past() && !model_.declares_pooling) {
    refuse(
        "the model takes keys and values of earlier tokens, as decoders do, and no modules.json says which Pooling its "
        "vectors have; accepted: modules.json with a Pooling (lasttoken of Qwen3-Embedding)");
  }
  const OutputFacts facts{.declares_pooling = model_.declares_pooling,
                          .can_pool = !model_.poolings.empty(),
                          .architecture = model_.architecture,
                          .vocabulary = model_.vocabulary};
  sparse_output_ = choose_sparse_output(signature.outputs, facts, model_.splade.has_value());
  multi_vector_output_ = choose_multi_vector_output(signature.outputs, facts, model_.late_interaction.has_value());
  find_left_out_tokens();
  const auto width_of = [&](const std::string& name) -> std::int64_t {
    const auto output = std::ranges::find(signature.outputs, name, &SignatureEntry::name);
    return output->type.dimensions ? output->type.dimensions->back().size.value_or(0) : 0;
  };
  if (!sparse_output_.empty()) {
    const auto width = static_cast<std::uint64_t>(std::max<std::int64_t>(width_of(sparse_output_), 0));
    dimension_of(Representation::sparse) = static_cast<std::size_t>(std::max(width, model_.vocabulary));
  }
  // Where a projection may follow, or the file leaves it open, a run tells.
  if (!multi_vector_output_.empty() && model_.dense.empty()) {
    dimension_of(Representation::multi_vector) = static_cast<std::size_t>(width_of(multi_vector_output_));
  }
  if (model_.splade || model_.late_interaction) return;
  try {
    find_dense_output(signature);
  } catch (const Error&) {
    if (sparse_output_.empty() && multi_vector_output_.empty()) throw;
    choice_ = {};
  }
}

void SentenceEncoder::find_left_out_tokens() {
  const text::Encoding one = tokenizer_.encode("a");
  bool is_leading = true;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const bool is_special = one.special_tokens_mask()[i] != 0;
    is_leading = is_leading && is_special;
    if (is_leading) ++leading_specials_;
    if (is_special) left_out_.push_back(one.ids()[i]);
  }
  for (const char* unknown : {"<unk>", "[UNK]"}) {
    if (const auto id = tokenizer_.id(unknown)) left_out_.push_back(*id);
  }
  left_out_.push_back(model_.padding_token);
  sort_unique(left_out_);
  if (!model_.late_interaction) return;
  const checkpoint::LateInteraction& late = *model_.late_interaction;
  const auto unknown = tokenizer_.id("[UNK]");
  for (const std::string& word : late.skipped_words) {
    const auto id = tokenizer_.id(word);
    if (id && id != unknown) skipped_.push_back(*id);
  }
  sort_unique(skipped_);
  if (!late.expansion) return;
  for (const std::string& token : {late.expansion->token, std::string("[MASK]"), std::string("<mask>")}) {
    if (!expansion_token_ && !token.empty()) expansion_token_ = tokenizer_.id(token);
    if (!token.empty() && token == late.expansion->token && !expansion_token_) break;
  }
  if (!expansion_token_) {
    refuse(fmt::format("queries are expanded with the token '{}', which the tokenizer does not have",
                       late.expansion->token.empty() ? "[MASK]" : late.expansion->token));
  }
}

void SentenceEncoder::check_representation(const EmbedOptions& options) const {
  const Representation asked = representation(options);
  if (!represents(asked)) {
    std::vector<std::string> made;
    for (const auto& [representation, name] : representation_names) {
      if (represents(representation)) made.emplace_back(name);
    }
    static constexpr std::array<std::string_view, 3> needs{
        "an output with vectors of texts or tokens",
        "a masked language model (SPLADE), or the output sparse_vecs of BGE-M3",
        "a late-interaction model (ColBERT), or the output colbert_vecs of BGE-M3",
    };
    throw Error(
        ErrorCode::usage,
        fmt::format("{} embeddings are requested, and '{}'{} makes {} embeddings: its outputs are {}; {} ones need {}",
                    name_of(asked), model_.name, model_.architecture.empty() ? "" : " (" + model_.architecture + ")",
                    join(made), join(outputs_), name_of(asked), needs.at(static_cast<std::size_t>(asked))));
  }
  if (options.with_sparse && (asked != Representation::dense || !represents(Representation::sparse))) {
    throw Error(ErrorCode::usage,
                fmt::format("dense vectors with sparse ones are requested, and '{}' makes {} here", model_.name,
                            asked == Representation::dense ? "no sparse ones" : "others"));
  }
  if (asked != Representation::sparse && (options.sparse.top_k != 0 || options.sparse.threshold != 0)) {
    throw Error(ErrorCode::usage,
                fmt::format("a number or a threshold of weights is for sparse embeddings, and these are "
                            "{}",
                            name_of(asked)));
  }
  if (asked != Representation::sparse) return;
  if (options.dimensions != 0) {
    throw Error(ErrorCode::usage,
                fmt::format("{} requested of sparse vectors, whose dimensions are the vocabulary; the largest weights "
                            "are kept with a number of weights",
                            counted(options.dimensions, "dimension")));
  }
  if (options.normalize.value_or(false)) {
    throw Error(ErrorCode::usage, "sparse vectors are not normalized: their weights are compared as they are");
  }
}

PreparedText SentenceEncoder::prepare_late_interaction(std::string_view text, const EmbedOptions& options) const {
  const checkpoint::LateInteraction& late =
      *model_.late_interaction;  // NOLINT(bugprone-unchecked-optional-access): callers have checked it
  const std::string& prompt = prompt_of(options);
  Marker marker{.token = std::nullopt, .rest = prompt};
  if (late.has_markers) marker = marker_in(prompt, tokenizer_);
  const text::Encoding encoding = encode(std::string(marker.rest) + std::string(text), options, marker.token ? 1 : 0);
  std::vector<std::uint32_t> ids(encoding.ids().begin(), encoding.ids().end());
  std::vector<std::uint32_t> types(encoding.type_ids().begin(), encoding.type_ids().end());
  if (marker.token) {
    const auto position = static_cast<std::ptrdiff_t>(std::min(leading_specials_, ids.size()));
    ids.insert(ids.begin() + position, *marker.token);
    types.insert(types.begin() + position, 0U);
  }
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_input, "the text has no tokens, and the model's tokenizer adds none");
  }
  const bool is_query = options.role == TextRole::query;
  const bool skips = is_query ? late.skips_in_queries : late.skips_in_documents;
  PreparedText prepared;
  for (const std::uint32_t id : ids) {
    prepared.scored.push_back(skips && std::ranges::binary_search(skipped_, id) ? 0 : 1);
  }
  std::size_t length = ids.size();
  std::uint32_t filler = model_.padding_token;
  if (is_query && late.expansion && expansion_token_ && ids.size() < late.expansion->length) {
    length = late.expansion->length;
    prepared.scored.resize(length, 1);
    if (late.expansion->is_attended) {
      ids.resize(length, *expansion_token_);
      types.resize(length, 0U);
    } else {
      filler = *expansion_token_;
      if (!computes_padding_) {
        throw Error(ErrorCode::provider_unavailable,
                    format_message("queries of this model end in mask tokens that attention leaves out, and the "
                                   "encoder provider computes no vectors for them; accepted: {} cpu, or another",
                                   setting_named("provider")));
      }
    }
  }
  prepared.inputs = inputs_of(ids, types, length, filler, options);
  ids.resize(length, filler);
  prepared.tokens = prepared.length = length;
  prepared.ids = std::move(ids);
  return prepared;
}

Embedding SentenceEncoder::sparse(const PreparedText& prepared, const Value& output, SparseLimits limits) const {
  const Tensor* tensor = output.tensor();
  if (tensor == nullptr) refuse(fmt::format("output '{}' is no tensor", sparse_output_));
  if (limits.top_k == 0) limits.top_k = model_.sparse_top_k;
  const Shape& shape = tensor->shape();
  const auto length = static_cast<std::int64_t>(prepared.length);
  const auto vocabulary =
      static_cast<std::int64_t>(std::min(model_.vocabulary, std::uint64_t{tokenizer_.vocabulary_size()}));
  const bool is_row = !shape.empty() && shape.front() == 1;
  const Tensor floats = convert(*tensor, ElementType::float32);
  const std::span<const float> numbers = floats.as<float>();
  const bool has_tokens = is_row && shape.size() >= 2 && shape[1] == length;
  if (has_tokens && (shape.size() == 2 || (shape.size() == 3 && shape[2] == 1)) && length != vocabulary) {
    const std::span<const float> weights = numbers.first(prepared.tokens);
    require_finite(weights, sparse_output_);
    return sparse_from_tokens(weights, prepared.ids, left_out_, limits);
  }
  if (has_tokens && shape.size() == 3 && shape[2] >= vocabulary) {
    const std::span<const float> logits = numbers.first(prepared.tokens * static_cast<std::size_t>(shape[2]));
    require_finite(logits, sparse_output_);
    return sparse_from_logits(logits, prepared.tokens, model_.splade.value_or(checkpoint::SpladePooling()), limits);
  }
  if (is_row && shape.size() == 2 && shape[1] >= vocabulary) {
    require_finite(numbers, sparse_output_);
    return sparse_from_vocabulary(numbers, limits);
  }
  refuse(
      fmt::format("output '{}' of {} is {}; accepted: [1, vocabulary], [1, tokens, 1] or [1, tokens, vocabulary], "
                  "with a vocabulary of {}",
                  sparse_output_, counted(prepared.length, "token"), to_string(shape), vocabulary));
}

Embedding SentenceEncoder::multi_vector(const PreparedText& prepared, const Tensor& output,
                                        const EmbedOptions& options) const {
  const Shape& shape = output.shape();
  const auto length = static_cast<std::int64_t>(prepared.length);
  // BGE-M3's first token has no vector.
  const bool fits = shape.size() == 3 && shape[0] == 1 && (shape[1] == length || shape[1] + 1 == length);
  if (!fits || shape[2] == 0) {
    refuse(fmt::format("output '{}' of {} is {}; accepted: [1, tokens, width], the first token left out or not",
                       multi_vector_output_, counted(prepared.length, "token"), to_string(shape)));
  }
  const auto first = static_cast<std::size_t>(length - shape[1]);
  const auto width = static_cast<std::size_t>(shape[2]);
  const Tensor floats = convert(output, ElementType::float32);
  const std::span<const float> numbers = floats.as<float>();
  const bool is_hidden = multi_vector_output_ == "last_hidden_state";
  const bool projects = model_.late_interaction && !model_.dense.empty() &&
                        width == static_cast<std::size_t>(model_.dense.front().in) &&
                        (is_hidden || model_.dense.front().in != model_.dense.back().out);
  const bool normalizes =
      options.normalize.value_or(model_.late_interaction ? model_.late_interaction->normalize : false) ||
      (options.dimensions != 0 && options.normalize.value_or(true));
  Embedding embedding{.values = {}, .indices = {}, .rows = 0};
  for (std::size_t token = first; token < prepared.tokens; ++token) {
    if (!prepared.scored.empty() && prepared.scored[token] == 0) continue;
    const std::span<const float> row = numbers.subspan((token - first) * width, width);
    std::vector<float> vector(row.begin(), row.end());
    if (projects) {
      for (const checkpoint::DenseLayer& layer : model_.dense) vector = apply_dense(layer, vector);
    }
    if (options.dimensions != 0 && options.dimensions < vector.size()) vector.resize(options.dimensions);
    if (normalizes) normalize(vector);
    embedding.values.insert(embedding.values.end(), vector.begin(), vector.end());
    ++embedding.rows;
  }
  require_finite(embedding.values, multi_vector_output_);
  return embedding;
}

Embedding SentenceEncoder::represent(const PreparedText& prepared, const Value& output,
                                     const EmbedOptions& options) const {
  const Representation asked = representation(options);
  if (asked == Representation::dense) return {.values = finish(prepared, output, options), .indices = {}, .rows = 1};
  if (asked == Representation::sparse) return sparse(prepared, output, options.sparse);
  const Tensor* tensor = output.tensor();
  if (tensor == nullptr) refuse(fmt::format("output '{}' is no tensor", multi_vector_output_));
  return multi_vector(prepared, *tensor, options);
}

Embedding SentenceEncoder::represent_all(const PreparedText& prepared, const NamedValues& outputs,
                                         const EmbedOptions& options) const {
  Embedding embedding = represent(prepared, outputs.front().second, options);
  if (!options.with_sparse) return embedding;
  Embedding weights = sparse(prepared, outputs.at(1).second, {});
  embedding.sparse = {.values = std::move(weights.values), .indices = std::move(weights.indices)};
  return embedding;
}

}  // namespace gpux::embedding
