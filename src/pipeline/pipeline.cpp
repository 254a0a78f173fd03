#include "pipeline/pipeline.h"

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "embedding/open_tokenizer.h"
#include "gpux/error.h"
#include "text/embedded_tokens.h"

namespace gpux::pipeline {
namespace {

constexpr std::string_view scores_name = "scores";
constexpr std::string_view entities_name = "entities";
constexpr std::string_view answers_name = "answers";

// As transformers has it.
constexpr std::size_t window_overlap = 128;

SignatureEntry texts_entry(std::string name, bool required, std::string description) {
  SignatureEntry entry;
  entry.name = std::move(name);
  entry.type.kind = ValueKind::tensor;
  entry.type.element = ElementType::string;
  entry.type.dimensions = std::vector<Dimension>{{.size = std::nullopt, .name = "batch"}};
  entry.required = required;
  entry.description = std::move(description);
  return entry;
}

bool is_float(const ValueType& type) {
  return type.kind == ValueKind::tensor &&
         (type.element == ElementType::float32 || type.element == ElementType::float16 ||
          type.element == ElementType::bfloat16 || type.element == ElementType::float64);
}

// One text, or as many as there are rows: of [], [rows] or [rows, 1].
Tensor texts_of(const Value& value, const std::string& name) {
  const Tensor* tensor = value.tensor();
  const bool fits = tensor != nullptr && tensor->type() == ElementType::string &&
                    (tensor->shape().size() < 2 || (tensor->shape().size() == 2 && tensor->shape().back() == 1));
  if (!fits) {
    throw Error(ErrorCode::invalid_input, fmt::format("'{}' is not a text, nor a list of texts", name));
  }
  return tensor->reshaped({static_cast<std::int64_t>(tensor->strings().size())});
}

}  // namespace

Pipeline::Pipeline(TextSettings settings, const Signature& model)
    : settings_(std::move(settings)),
      tokenizer_(embedding::open_tokenizer(settings_.tokenizer_file)),
      inputs_(model, settings_.first_position, 0, settings_.has_token_types),
      continues_with_mark_(tokenizer_.id("##s").has_value()),
      model_outputs_(model.outputs) {
  switch (settings_.task) {
    case Task::text_ranking:
      first_ = "query";
      second_ = "text";
      needs_second_ = true;
      break;
    case Task::question_answering:
      first_ = "question";
      second_ = "context";
      needs_second_ = true;
      break;
    case Task::token_classification:
      first_ = "text";
      break;
    default:
      first_ = "text";
      second_ = "text_pair";
  }
  for (const std::string& name : {first_, second_}) {
    const bool is_taken = std::any_of(model.inputs.begin(), model.inputs.end(),
                                      [&](const SignatureEntry& entry) { return entry.name == name; });
    if (is_taken) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("the model has an input '{}' of its own, which is the name for texts", name));
    }
  }
  find_outputs(model);
  signature_.inputs.push_back(texts_entry(first_, true, "UTF-8"));
  if (!second_.empty()) signature_.inputs.push_back(texts_entry(second_, needs_second_, "UTF-8"));
  for (SignatureEntry entry : model.inputs) {
    const bool is_made = inputs_.has(entry.name);
    if (is_made) entry.required = false;
    signature_.inputs.push_back(std::move(entry));
  }
  signature_.outputs = model.outputs;
  const auto add_output = [&](std::string_view name, ElementType element, std::string description) {
    SignatureEntry entry = texts_entry(std::string(name), true, std::move(description));
    entry.type.element = element;
    signature_.outputs.push_back(std::move(entry));
  };
  if (settings_.task == Task::text_ranking) add_output(scores_name, ElementType::float32, "how well the text answers");
  if (settings_.task == Task::token_classification) add_output(entities_name, ElementType::string, "JSON");
  if (settings_.task == Task::question_answering) add_output(answers_name, ElementType::string, "JSON");
}

const SignatureEntry* Pipeline::model_output(std::string_view name) const noexcept {
  for (const SignatureEntry& entry : model_outputs_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void Pipeline::find_outputs(const Signature& model) {
  const auto find_output = [&](std::string_view name, std::size_t rank) -> std::string {
    const auto fits = [&](const SignatureEntry& entry) {
      return is_float(entry.type) && (!entry.type.dimensions || entry.type.dimensions->size() == rank);
    };
    for (const SignatureEntry& entry : model.outputs) {
      if (entry.name == name && fits(entry)) return entry.name;
    }
    const auto count = std::count_if(model.outputs.begin(), model.outputs.end(), fits);
    if (count == 1) return std::find_if(model.outputs.begin(), model.outputs.end(), fits)->name;
    throw Error(ErrorCode::invalid_model,
                fmt::format("the task is {}, and the model has no output '{}' of rank {} and a floating type",
                            name_of(task_names, settings_.task), name, rank));
  };
  switch (settings_.task) {
    case Task::none:
      return;
    case Task::text_classification:
    case Task::text_ranking:
      logits_ = find_output("logits", 2);
      return;
    case Task::token_classification:
      logits_ = find_output("logits", 3);
      if (settings_.labels.empty()) {
        throw Error(ErrorCode::invalid_model,
                    "the task is token-classification, and no config.json beside the tokenizer has id2label");
      }
      return;
    case Task::question_answering:
      start_logits_ = find_output("start_logits", 2);
      end_logits_ = find_output("end_logits", 2);
      if (start_logits_ == end_logits_) {
        throw Error(ErrorCode::invalid_model,
                    "the task is question-answering, and the model has no outputs 'start_logits' and 'end_logits'");
      }
      return;
  }
}

std::vector<DeclaredValue> Pipeline::outputs(const std::optional<std::vector<DeclaredValue>>& declared) const {
  std::vector<DeclaredValue> all = declared.value_or(std::vector<DeclaredValue>());
  const auto entry_for = [&](std::string_view name) -> DeclaredValue& {
    for (DeclaredValue& value : all) {
      if (value.name == name) return value;
    }
    DeclaredValue& added = all.emplace_back();
    added.name = name;
    return added;
  };
  if (settings_.task == Task::text_classification && !settings_.labels.empty()) {
    DeclaredValue& logits = entry_for(logits_);
    if (logits.labels.empty()) {
      logits.labels = settings_.labels;
      if (logits.activation == Activation::none) logits.activation = settings_.activation;
    }
  }
  if (settings_.task == Task::token_classification) entry_for(entities_name).is_json = true;
  if (settings_.task == Task::question_answering) entry_for(answers_name).is_json = true;
  return all;
}

std::vector<SignatureEntry> Pipeline::text_inputs() const {
  std::vector<SignatureEntry> entries;
  for (const SignatureEntry& entry : signature_.inputs) {
    if (!inputs_.has(entry.name)) entries.push_back(entry);
  }
  return entries;
}

bool Pipeline::takes_text(const NamedValues& given) const noexcept {
  if (find(given, first_) != nullptr || (!second_.empty() && find(given, second_) != nullptr)) return true;
  // Who gives nothing that the model knows is told of the texts first.
  return std::none_of(given.begin(), given.end(), [&](const NamedValue& value) { return inputs_.has(value.first); });
}

const std::string* TextRows::pair(std::size_t row) const {
  const bool counts = !pairs.shape().empty() && (options.has_second.empty() || options.has_second.at(row));
  return counts ? &pairs.strings()[row] : nullptr;
}

TextRows Pipeline::rows(const NamedValues& given, const PrepareOptions& options) const {
  const Value* first = find(given, first_);
  const Value* second = second_.empty() ? nullptr : find(given, second_);
  if (first == nullptr || (second == nullptr && needs_second_)) {
    std::vector<std::string> own;
    for (const SignatureEntry& entry : signature_.inputs) {
      if (inputs_.has(entry.name)) own.push_back(entry.name);
    }
    throw Error(ErrorCode::invalid_input, fmt::format("'{}' is missing; accepted instead of texts: {}",
                                                      first == nullptr ? first_ : second_, gpux::join(own)));
  }
  TextRows rows;
  rows.options = options;
  for (const auto& [name, value] : given) {
    if (inputs_.has(name)) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("both '{}' and '{}' are given: the second is made of the first", first_, name));
    }
    if (name != first_ && name != second_) rows.others.emplace_back(name, value);
  }
  rows.texts = texts_of(*first, first_);
  const auto texts = static_cast<std::size_t>(rows.texts.shape().front());
  if (second != nullptr) rows.pairs = texts_of(*second, second_);
  const std::size_t pairs = second == nullptr ? 0 : static_cast<std::size_t>(rows.pairs.shape().front());
  if (texts == 0) throw Error(ErrorCode::invalid_input, fmt::format("'{}' holds no text", first_));
  // One query is asked of many texts.
  rows.one_for_all = settings_.task == Task::text_ranking && texts == 1;
  if (second != nullptr && pairs != texts && !rows.one_for_all) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}' has {}, and '{}' {}", first_, counted(texts, "text"), second_, pairs));
  }
  rows.count = second == nullptr ? texts : pairs;
  if (rows.count == 0) throw Error(ErrorCode::invalid_input, fmt::format("'{}' holds no text", second_));
  if (!rows.others.empty() && rows.count > 1) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}' is given together with {} texts: give each text in a separate object",
                            rows.others.front().first, rows.count));
  }
  if (rows.one_for_all && rows.count > 1) {
    if (!settings_.pair_template)
      rows.first = tokenizer_.encode_first(settings_.prompt + rows.text(0), encode_options(options));
  }
  return rows;
}

std::vector<Part> Pipeline::prepare_row(const TextRows& rows, std::size_t row) const {
  std::vector<Part> parts;
  if (settings_.task == Task::question_answering) {
    parts = prepare_windows(rows, row);
  } else if (settings_.pair_template) {
    const std::vector<std::uint32_t> ids = templated_row(rows, row, *settings_.pair_template);
    parts.push_back(part_of(ids, std::vector<std::uint32_t>(ids.size(), 0), row));
  } else {
    const text::Encoding encoding = encode_row(rows, row);
    parts.push_back(part_of(encoding.ids(), encoding.type_ids(), row));
    if (settings_.task == Task::token_classification) parts.back().places = places_in(encoding, rows.text(row), 0);
  }
  for (Part& part : parts) part.inputs.insert(part.inputs.end(), rows.others.begin(), rows.others.end());
  return parts;
}

std::string Pipeline::answer_text(const TextRows& rows, std::size_t row) const {
  if (settings_.task == Task::question_answering) return *rows.pair(row);
  if (settings_.task == Task::token_classification) return rows.text(row);
  return {};
}

Prepared Pipeline::prepare(const NamedValues& given, const PrepareOptions& options) const {
  const TextRows all = rows(given, options);
  Prepared prepared;
  prepared.rows = all.count;
  for (std::size_t row = 0; row < all.count; ++row) {
    try {
      for (Part& part : prepare_row(all, row)) prepared.parts.push_back(std::move(part));
      prepared.texts.push_back(answer_text(all, row));
    } catch (const Error& error) {
      throw all.count == 1 ? error : error.within(fmt::format("text {}", row));
    }
  }
  return prepared;
}

Part Pipeline::part_of(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                       std::size_t row) const {
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_input, "the text has no tokens, and the model's tokenizer adds none");
  }
  text::require_embedded(ids, settings_.vocabulary, tokenizer_);
  return {
      .inputs = inputs_.values(ids, type_ids, settings_.fills_up ? settings_.max_tokens : 0, settings_.padding_token),
      .row = row,
      .tokens = ids.size(),
      .places = {}};
}

text::EncodeOptions Pipeline::encode_options(const PrepareOptions& options) const {
  const bool has_places = settings_.task == Task::token_classification;
  text::EncodeOptions encode{.max_tokens = settings_.max_tokens,
                             .truncate_left = options.truncate_left.value_or(settings_.truncate_left),
                             .truncation = settings_.pair_truncation,
                             .offsets = has_places ? text::Offsets::bytes : text::Offsets::none,
                             .max_bytes = options.max_text_bytes};
  // One token more than there may be tells that there are too many, without reading on.
  if (!options.truncate && settings_.max_tokens != 0) ++encode.max_tokens;
  return encode;
}

std::vector<std::uint32_t> Pipeline::templated_row(const TextRows& rows, std::size_t row,
                                                   const checkpoint::PairTemplate& pair_template) const {
  const std::string* document = rows.pair(row);
  if (document == nullptr) {
    throw Error(ErrorCode::invalid_input, fmt::format("'{}' is missing: the model scores pairs", second_));
  }
  text::EncodeOptions options = encode_options(rows.options);
  options.special_tokens = false;  // the template has them
  options.max_tokens = 0;
  const std::string prefix = pair_template.prefix(rows.text(row), *document);
  const text::Encoding whole = tokenizer_.encode(prefix + pair_template.suffix, options);
  const std::size_t most = settings_.max_tokens;
  if (most == 0 || whole.size() <= most) return {whole.ids().begin(), whole.ids().end()};
  if (!rows.options.truncate) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the text has {} tokens; accepted: at most {}", whole.size(), most));
  }
  // What the model answers to is at the end: it stays, and the document is cut.
  options.max_bytes = 0;
  const text::Encoding suffix = tokenizer_.encode(pair_template.suffix, options);
  if (suffix.size() >= most) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("the chat template ends with {} tokens, and the model takes {}", suffix.size(), most));
  }
  options.max_tokens = most - suffix.size();
  const text::Encoding kept = tokenizer_.encode(prefix, options);
  std::vector<std::uint32_t> ids(kept.ids().begin(), kept.ids().end());
  ids.insert(ids.end(), suffix.ids().begin(), suffix.ids().end());
  return ids;
}

text::Encoding Pipeline::encode_row(const TextRows& rows, std::size_t row) const {
  const text::EncodeOptions options = encode_options(rows.options);
  std::string_view text = rows.text(row);
  std::string with_prompt;
  if (!settings_.prompt.empty()) text = with_prompt = settings_.prompt + rows.text(row);
  const std::string* pair = rows.pair(row);
  const auto encode = [&](const text::EncodeOptions& how) {
    if (pair == nullptr) return tokenizer_.encode(text, how);
    return tokenizer_.encode(text, *pair, how);
  };
  text::Encoding encoding =
      rows.first && pair != nullptr ? tokenizer_.encode(*rows.first, *pair, options) : encode(options);
  if (rows.options.truncate || settings_.max_tokens == 0 || encoding.size() <= settings_.max_tokens) return encoding;
  // Counted exactly where that costs little.
  constexpr std::size_t counted_bytes = 16 << 10;
  if (text.size() + (pair == nullptr ? 0 : pair->size()) > counted_bytes) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the text has more than {0} tokens; accepted: at most {0}", settings_.max_tokens));
  }
  text::EncodeOptions whole = options;
  whole.max_tokens = 0;
  throw Error(ErrorCode::invalid_input,
              fmt::format("the text has {} tokens; accepted: at most {}", encode(whole).size(), settings_.max_tokens));
}

// A context that is too long is asked in overlapping windows, each with the question before it.
std::vector<Part> Pipeline::prepare_windows(const TextRows& rows, std::size_t row) const {
  const std::string& question = rows.text(row);
  const std::string& context = *rows.pair(row);
  std::vector<Part> parts;
  const text::Encoding whole =
      tokenizer_.encode(question, context, {.offsets = text::Offsets::bytes, .max_bytes = rows.options.max_text_bytes});
  const std::vector<TokenPlace> places = places_in(whole, context, 1);
  const auto is_context = [&](std::size_t i) {
    return whole.sequence_ids()[i] == 1 && whole.special_tokens_mask()[i] == 0;
  };
  std::size_t first = 0;
  while (first < whole.size() && !is_context(first)) ++first;
  std::size_t end = first;
  while (end < whole.size() && is_context(end)) ++end;
  if (first == end) throw Error(ErrorCode::invalid_input, "the context has no tokens");
  const std::size_t around = first + (whole.size() - end);
  const std::size_t limit = settings_.max_tokens == 0 ? whole.size() : settings_.max_tokens;
  if (around >= limit) {
    throw Error(ErrorCode::invalid_input, fmt::format("the question takes {} tokens of {}: no tokens are left for the "
                                                      "context",
                                                      around, limit));
  }
  const std::size_t room = limit - around;
  const std::size_t overlap = std::min(window_overlap, limit / 2);
  const std::size_t step = room - (overlap < room ? overlap : room / 2);
  // Before the window, the window, and behind the whole context.
  const auto window_of = [&](const auto& all, std::size_t begin, std::size_t stop) {
    std::vector<typename std::remove_cvref_t<decltype(all)>::value_type> window(all.begin(), all.begin() + first);
    window.insert(window.end(), all.begin() + begin, all.begin() + stop);
    window.insert(window.end(), all.begin() + end, all.end());
    return window;
  };
  for (std::size_t begin = first;; begin += step) {
    const std::size_t stop = std::min(begin + room, end);
    Part part = part_of(window_of(whole.ids(), begin, stop), window_of(whole.type_ids(), begin, stop), row);
    part.places = window_of(places, begin, stop);
    parts.push_back(std::move(part));
    if (stop == end) return parts;
  }
}

std::vector<TokenPlace> Pipeline::places_in(const text::Encoding& encoding, std::string_view text,
                                            std::uint32_t sequence) const {
  std::vector<TokenPlace> places(encoding.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    TokenPlace& place = places[i];
    place.is_text = encoding.special_tokens_mask()[i] == 0 && encoding.sequence_ids()[i] == sequence;
    if (!place.is_text) continue;
    std::size_t begin = encoding.offsets()[2 * i];
    const std::size_t end = encoding.offsets()[2 * i + 1];
    // Where the tokenizer counts the space before a word to it, the word is meant.
    while (begin < end && std::isspace(static_cast<unsigned char>(text[begin])) != 0) ++begin;
    if (continues_with_mark_) {
      const auto token = tokenizer_.token(encoding.ids()[i]);
      place.continues_word = token && token->starts_with("##");
    } else {
      place.continues_word = begin > 0 && begin == encoding.offsets()[2 * i] &&
                             std::isspace(static_cast<unsigned char>(text[begin - 1])) == 0;
    }
    place.begin = begin;
    place.end = end;
  }
  return places;
}

std::vector<std::string> Pipeline::model_outputs(std::span<const std::string> names) const {
  std::vector<std::string> needed;
  const auto add = [&](const std::string& name) {
    if (std::find(needed.begin(), needed.end(), name) == needed.end()) needed.push_back(name);
  };
  const auto add_for_task = [&] {
    if (settings_.task == Task::question_answering) {
      add(start_logits_);
      add(end_logits_);
    } else {
      add(logits_);
    }
  };
  if (names.empty()) {
    const bool is_alone = settings_.task == Task::question_answering || settings_.task == Task::token_classification;
    if (is_alone) {
      add_for_task();
    } else {
      for (const SignatureEntry& entry : model_outputs_) add(entry.name);
    }
  }
  for (const std::string& name : names) {
    if (model_output(name) != nullptr) {
      add(name);
      continue;
    }
    const bool is_added = std::any_of(signature_.outputs.begin(), signature_.outputs.end(),
                                      [&](const SignatureEntry& entry) { return entry.name == name; });
    if (!is_added) throw Error(ErrorCode::invalid_input, fmt::format("there is no output '{}'", utf8_prefix(name, 80)));
    add_for_task();
  }
  return needed;
}

}  // namespace gpux::pipeline
