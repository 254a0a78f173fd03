#include "embedding/sentence_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "embedding/dense.h"
#include "embedding/near_vectors.h"
#include "embedding/open_tokenizer.h"
#include "embedding/pooling.h"
#include "embedding/recorded_texts.h"
#include "gpux/error.h"
#include "provider/table.h"
#include "tensor/convert.h"
#include "text/embedded_tokens.h"

namespace gpux::embedding {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_model, message);
}

// The vectors of the text's own tokens, which stand before what fills them up.
Tensor of_tokens(const Tensor& output, std::size_t tokens) {
  const Tensor floats = convert(output, ElementType::float32);
  const std::int64_t width = floats.shape().back();
  const Shape shape{static_cast<std::int64_t>(tokens), width};
  if (floats.shape()[1] == shape[0]) return floats.reshaped(shape);
  return Tensor::of<float>(shape, floats.as<float>().first(tokens * static_cast<std::size_t>(width)));
}

}  // namespace

std::optional<TextBatching> batching_from(std::string_view name) noexcept {
  if (name == "exact") return TextBatching::exact;
  if (name == "throughput") return TextBatching::throughput;
  return std::nullopt;
}

TextBatching default_batching(const Verdict& verdict) noexcept {
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != ProviderAttempt::Outcome::active || verdict.active.empty()) continue;
    if (attempt.id != verdict.active.front() || (!attempt.device && attempt.devices.empty())) continue;
    const Device& device = attempt.device ? *attempt.device : attempt.devices.front();
    return device.kind == "cpu" ? TextBatching::exact : TextBatching::throughput;
  }
  return TextBatching::exact;
}

bool choose_prompt(const checkpoint::SentenceModel& model, std::string_view name, EmbedOptions& options) {
  const auto found = std::ranges::find(model.prompts, name, [](const auto& prompt) { return prompt.first; });
  if (found == model.prompts.end()) return false;
  options.prompt = found->second;
  options.task = model.task_named(name);
  options.role = role_of_prompt(name);
  return true;
}

std::vector<std::string> prompt_names(const checkpoint::SentenceModel& model) {
  std::vector<std::string> names;
  for (const auto& [name, text] : model.prompts) names.push_back(name);
  return names;
}

std::size_t filled_length(std::size_t tokens) noexcept {
  const std::size_t step = tokens <= 32 ? 4 : tokens <= 64 ? 8 : tokens <= 128 ? 16 : 32;
  return (tokens + step - 1) / step * step;
}

SentenceEncoder::SentenceEncoder(checkpoint::SentenceModel model, const Runtime& runtime,
                                 std::optional<TextBatching> batching)
    : model_(std::move(model)),
      tokenizer_(open_tokenizer(model_.tokenizer_file)),
      batching_(batching.value_or(default_batching(runtime.verdict()))),
      has_default_batching_(!batching),
      embedded_tokens_(model_.vocabulary) {
  try {
    inputs_ = TokenInputs(runtime.info().signature, model_.first_position, model_.tasks.size(), model_.has_token_types);
    inputs_.require_no_others();
    find_outputs(runtime.info().signature);
  } catch (const Error& error) {
    throw error.within({file_at(model_.onnx_file)});
  }
  const std::vector<std::string>& active = runtime.verdict().active;
  const provider::ProviderRow* only = active.size() == 1 ? provider::find_row(active.front()) : nullptr;
  computes_padding_ = only == nullptr || !only->computes_no_padding;
  for (const auto& [representation, name] : representation_names) {
    if (!represents(representation) || dimension_of(representation) != 0) continue;
    const EmbedOptions options{.dimensions = std::numeric_limits<std::size_t>::max(), .representation = representation};
    const PreparedText prepared = prepare("a", options);
    const NamedValues outputs = runtime.infer(prepared.inputs, {.outputs = {output(options)}});
    const Embedding embedding = represent(prepared, outputs.front().second, options);
    dimension_of(representation) = embedding.values.size() / std::max<std::size_t>(embedding.rows, 1);
  }
  find_filling(runtime);
}

void SentenceEncoder::find_filling(const Runtime& runtime) {
  if (batching_ != TextBatching::throughput || model_.pads_to_max_tokens || model_.late_interaction) return;
  if (!inputs_.has("attention_mask")) {
    filling_problem_ = "the model has no attention_mask";
    return;
  }
  // Lengths that texts are filled up to anyway, which a provider may compile for.
  const std::size_t tokens = model_.max_tokens != 0 && model_.max_tokens <= 8 ? 4 : 8;
  const std::size_t length = model_.max_tokens == 0 ? 12 : std::min<std::size_t>(tokens + 4, model_.max_tokens);
  try {
    fills_up_ = length <= tokens || keeps_outputs(runtime, tokens, length);
    if (!fills_up_) filling_problem_ = "the outputs depend on what the attention_mask leaves out";
  } catch (const Error& error) {
    filling_problem_ = error.message();
  }
}

bool SentenceEncoder::keeps_outputs(const Runtime& runtime, std::size_t tokens, std::size_t length) const {
  const double rounding = rounding_of(runtime.verdict().precision);
  std::vector<std::string> names;
  for (const auto& [representation, name] : representation_names) {
    if (represents(representation)) names.push_back(output({.representation = representation}));
  }
  constexpr int texts = 2;
  int tried = 0;
  for (const std::string_view text : recorded_texts()) {
    const EmbedOptions options{.max_tokens = tokens};
    const text::Encoding encoding = encode(text, options);
    if (encoding.size() != tokens) continue;
    const NamedValues alone = runtime.infer(of_length(encoding, tokens, options).inputs, {.outputs = names});
    const NamedValues filled = runtime.infer(of_length(encoding, length, options).inputs, {.outputs = names});
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!are_near(alone.at(i).second, filled.at(i).second, rounding)) return false;
    }
    if (++tried == texts) return true;
  }
  return tried != 0;
}

VectorSettings SentenceEncoder::vector_settings() const noexcept {
  return {.truncate_dim = model_.dimensions, .normalizes = model_.normalize};
}

std::size_t SentenceEncoder::dimension(const EmbedOptions& options) const noexcept {
  const std::size_t whole = max_dimension(options);
  return representation(options) == Representation::dense ? kept_dimensions(whole, vector_settings()) : whole;
}

bool SentenceEncoder::is_normalized(const EmbedOptions& options) const noexcept {
  EmbedOptions dense = options;
  dense.representation = Representation::dense;
  return has_unit_length(max_dimension(dense), options.dimensions, options.normalize, vector_settings());
}

bool SentenceEncoder::pools(const EmbedOptions& options) const noexcept {
  if (!choice_.is_pooled) return true;
  // A graph that normalizes cannot give the vector before that; what it is made of can.
  const bool can_pool = !choice_.token_vectors.empty() && !model_.poolings.empty();
  return model_.normalize && model_.graph_normalizes && !options.normalize.value_or(true) && can_pool;
}

const std::string& SentenceEncoder::output(const EmbedOptions& options) const noexcept {
  switch (representation(options)) {
    case Representation::sparse:
      return sparse_output_;
    case Representation::multi_vector:
      return multi_vector_output_;
    case Representation::dense:
      break;
  }
  return pools(options) ? choice_.token_vectors : choice_.name;
}

std::vector<std::string> SentenceEncoder::outputs(const EmbedOptions& options) const {
  std::vector<std::string> names{output(options)};
  if (options.with_sparse) names.push_back(sparse_output_);
  return names;
}

void SentenceEncoder::find_dense_output(const Signature& signature) {
  choice_ = choose_output(signature.outputs, {.declares_pooling = model_.declares_pooling,
                                              .can_pool = !model_.poolings.empty(),
                                              .architecture = model_.architecture,
                                              .vocabulary = model_.vocabulary});
  const auto output = std::ranges::find(signature.outputs, choice_.name, &SignatureEntry::name);
  const auto& dimensions = output->type.dimensions;
  const auto width = dimensions ? dimensions->back().size : std::nullopt;
  // Where the file leaves it open, a run will tell.
  std::size_t& dimension = dimension_of(Representation::dense);
  if (width) dimension = static_cast<std::size_t>(*width) * (choice_.is_pooled ? 1 : model_.poolings.size());
  if (!choice_.is_pooled && !model_.dense.empty()) dimension = static_cast<std::size_t>(model_.dense.back().out);
}

void SentenceEncoder::check_task(const EmbedOptions& options) const {
  if (options.task && !inputs_.takes_task()) {
    throw Error(ErrorCode::usage,
                fmt::format("the prompt '{}' is of an adapter, and the ONNX file of '{}' has no input task_id or "
                            "adapter_id that selects one; accepted: the prompt's text",
                            model_.tasks.at(*options.task), model_.name));
  }
  if (!inputs_.requires_task() || task(options)) return;
  throw Error(ErrorCode::usage,
              fmt::format("the ONNX file of '{}' computes the adapter of a task, and no task is chosen; accepted: the "
                          "prompts {}",
                          model_.name, join(model_.tasks)));
}

void SentenceEncoder::check(const EmbedOptions& options) const {
  check_representation(options);
  check_task(options);
  if (options.dimensions > max_dimension(options)) {
    throw Error(ErrorCode::usage, fmt::format("{} requested; accepted: 1 to the model's {}",
                                              counted(options.dimensions, "dimension"), max_dimension(options)));
  }
  const bool is_dense = representation(options) == Representation::dense;
  if (is_dense && !pools(options) && model_.normalize && model_.graph_normalizes && !options.normalize.value_or(true)) {
    throw Error(ErrorCode::usage,
                fmt::format("vectors without normalization are not available: the model's output '{}' is normalized, "
                            "and it has no output with the vectors of the tokens",
                            choice_.name));
  }
  if (options.max_tokens == 0) return;
  const std::size_t least = tokenizer_.added_tokens(false) + 1;
  if (options.max_tokens < least) {
    throw Error(ErrorCode::usage, fmt::format("{} requested; accepted: {} or more, with the special ones",
                                              counted(options.max_tokens, "token"), least));
  }
  if (model_.max_tokens != 0 && options.max_tokens > model_.max_tokens) {
    throw Error(ErrorCode::usage, fmt::format("{} requested; accepted: at most the model's {}",
                                              counted(options.max_tokens, "token"), model_.max_tokens));
  }
}

const std::string& SentenceEncoder::prompt_of(const EmbedOptions& options) const {
  if (options.prompt) return *options.prompt;
  if (model_.late_interaction && options.role == TextRole::query) return model_.late_interaction->query_prompt;
  return model_.default_prompt;
}

std::size_t SentenceEncoder::limit_of(const EmbedOptions& options) const noexcept {
  if (!model_.late_interaction || options.role != TextRole::query || model_.late_interaction->query_tokens == 0) {
    return options.max_tokens != 0 ? options.max_tokens : model_.max_tokens;
  }
  const std::size_t of_queries = model_.late_interaction->query_tokens;
  return options.max_tokens != 0 ? std::min(options.max_tokens, of_queries) : of_queries;
}

text::Encoding SentenceEncoder::encode(std::string_view text, const EmbedOptions& options, std::size_t inserted) const {
  const std::size_t whole_limit = limit_of(options);
  const std::size_t limit = whole_limit == 0 ? 0 : std::max(whole_limit, inserted + 1) - inserted;
  text::EncodeOptions encode{.max_tokens = limit,
                             .truncate_left = options.truncate_left.value_or(model_.truncate_left),
                             .max_bytes = options.max_text_bytes};
  if (options.truncate || limit == 0) return tokenizer_.encode(text, encode);
  // One token more than there may be tells that there are too many, without reading on.
  ++encode.max_tokens;
  text::Encoding encoding = tokenizer_.encode(text, encode);
  if (encoding.size() <= limit) return encoding;
  constexpr std::size_t counted_bytes = 16 << 10;
  if (text.size() > counted_bytes) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the text has more than {0} tokens; accepted: at most {0}", limit));
  }
  throw Error(ErrorCode::invalid_input,
              fmt::format("the text has {} tokens; accepted: at most {}", tokenizer_.encode(text).size(), limit));
}

std::vector<std::uint8_t> SentenceEncoder::pooling_mask(const text::Encoding& encoding,
                                                        const EmbedOptions& options) const {
  std::vector<std::uint8_t> mask(encoding.size(), 1);
  if (model_.pools_prompt || prompt_of(options).empty()) return mask;
  // As sentence-transformers counts them: the prompt's tokens with the special ones before it, not the one behind.
  const text::Encoding prompt = encode(prompt_of(options), options);
  std::size_t count = prompt.size();
  if (count != 0 && prompt.special_tokens_mask().back() != 0) --count;
  std::fill_n(mask.begin(), std::min(count, mask.size()), std::uint8_t{0});
  return mask;
}

std::vector<float> SentenceEncoder::pooled(const Tensor& output, const PreparedText& prepared,
                                           const EmbedOptions& options) const {
  const bool is_pooled = !pools(options);
  const Shape& shape = output.shape();
  const auto length = static_cast<std::int64_t>(prepared.length);
  const bool fits =
      is_pooled ? shape.size() == 2 && shape[0] == 1 : shape.size() == 3 && shape[0] == 1 && shape[1] == length;
  if (!fits || shape.back() == 0) {
    refuse(fmt::format("output '{}' of {} is {}; accepted: {}", this->output(options),
                       counted(prepared.length, "token"), to_string(shape),
                       is_pooled ? "[1, width]" : "[1, tokens, width]"));
  }
  if (!choice_.is_known) {
    const std::string problem = width_problem(shape.back(), model_.vocabulary);
    if (!problem.empty()) refuse(fmt::format("output '{}' is {}: {}", choice_.name, to_string(shape), problem));
  }
  const Tensor floats = is_pooled ? convert(output, ElementType::float32) : of_tokens(output, prepared.tokens);
  const std::span<const float> elements = floats.as<float>();
  if (is_pooled) return {elements.begin(), elements.end()};
  std::vector<float> vector;
  for (const gpux::Pooling pooling : model_.poolings) append_pooled(pooling, elements, prepared.pooling_mask, vector);
  for (const checkpoint::DenseLayer& layer : model_.dense) {
    if (vector.size() != static_cast<std::size_t>(layer.in)) {
      refuse(fmt::format("a Dense of modules.json takes {} numbers, and there are {}", layer.in, vector.size()));
    }
    vector = apply_dense(layer, vector);
  }
  return vector;
}

std::size_t SentenceEncoder::max_tokens_of(std::size_t text_bytes, const EmbedOptions& options) const {
  // More only where a normalizer takes characters apart.
  const std::size_t of_text = text_bytes + prompt_of(options).size() + tokenizer_.added_tokens(false) + 1;
  const std::size_t limit = limit_of(options);
  if (model_.late_interaction && model_.late_interaction->expansion && options.role == TextRole::query) {
    return std::max(model_.late_interaction->expansion->length, limit == 0 ? of_text : std::min(of_text, limit));
  }
  return limit == 0 ? of_text : std::min(of_text, limit);
}

PreparedText SentenceEncoder::prepare(std::string_view text, const EmbedOptions& options) const {
  // Here, so that offsets count from the text and not from the prompt before it.
  require_utf8(text);
  if (model_.late_interaction) return prepare_late_interaction(text, options);
  const std::string& prompt = prompt_of(options);
  std::string whole;
  if (!prompt.empty()) whole = prompt + std::string(text);
  const text::Encoding encoding = encode(prompt.empty() ? text : std::string_view(whole), options);
  if (encoding.size() == 0) {
    throw Error(ErrorCode::invalid_input, "the text has no tokens, and the model's tokenizer adds none");
  }
  if (model_.pads_to_max_tokens) return padded(encoding, options);
  std::size_t length = encoding.size();
  if (fills_up_) length = filled_length(length);
  if (fills_up_ && model_.max_tokens != 0) length = std::max(std::min(length, model_.max_tokens), encoding.size());
  return of_length(encoding, length, options);
}

NamedValues SentenceEncoder::inputs_of(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                                       std::size_t length, std::uint32_t padding_token,
                                       const EmbedOptions& options) const {
  text::require_embedded(ids, embedded_tokens_, tokenizer_);
  return inputs_.values(ids, type_ids, length, padding_token, task(options));
}

PreparedText SentenceEncoder::of_length(const text::Encoding& encoding, std::size_t length,
                                        const EmbedOptions& options) const {
  return {.inputs = inputs_of(encoding.ids(), encoding.type_ids(), length, model_.padding_token, options),
          .tokens = encoding.size(),
          .length = length,
          .pooling_mask = pools(options) ? pooling_mask(encoding, options) : std::vector<std::uint8_t>(),
          .ids = {encoding.ids().begin(), encoding.ids().end()},
          .scored = {}};
}

PreparedText SentenceEncoder::padded(const text::Encoding& encoding, const EmbedOptions& options) const {
  // The padding counts as the text does: no mask leaves it out.
  std::vector<std::uint32_t> ids(encoding.ids().begin(), encoding.ids().end());
  ids.resize(std::max(ids.size(), model_.max_tokens), model_.padding_token);
  const std::vector<std::uint32_t> types(ids.size(), 0);
  return {.inputs = inputs_of(ids, types, ids.size(), model_.padding_token, options),
          .tokens = encoding.size(),
          .length = ids.size(),
          .pooling_mask = pools(options) ? pooling_mask(encoding, options) : std::vector<std::uint8_t>(),
          .ids = std::move(ids),
          .scored = {}};
}

Tensor SentenceEncoder::token_vectors(const PreparedText& prepared, const Value& output) const {
  const Tensor* tensor = output.tensor();
  const auto length = static_cast<std::int64_t>(prepared.length);
  if (tensor == nullptr || tensor->shape().size() != 3 || tensor->shape()[0] != 1 || tensor->shape()[1] != length) {
    refuse(fmt::format("output '{}' of {} is not [1, tokens, width]", choice_.token_vectors,
                       counted(prepared.length, "token")));
  }
  return of_tokens(*tensor, prepared.tokens);
}

std::vector<float> SentenceEncoder::finish(const PreparedText& prepared, const Value& output,
                                           const EmbedOptions& options) const {
  const Tensor* tensor = output.tensor();
  if (tensor == nullptr) refuse(fmt::format("output '{}' is no tensor", this->output(options)));
  std::vector<float> vector = pooled(*tensor, prepared, options);
  if (!std::ranges::all_of(vector, [](float x) { return std::isfinite(x); })) {
    refuse(fmt::format("output '{}' has NaN or infinite numbers: the model does not hold in the precision it runs in",
                       this->output(options)));
  }
  finish_vector(vector, options.dimensions, options.normalize, vector_settings());
  return vector;
}

}  // namespace gpux::embedding
