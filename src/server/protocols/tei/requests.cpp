#include "server/protocols/tei/requests.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/texts.h"
#include "server/protocols/request_json.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

using Json = RequestJson;
using openapi::list_of, openapi::or_null;
using enum FieldKind;
using enum FieldUse;
using Schema = openapi::Json;

constexpr std::array<std::string_view, 4> directions{"right", "Right", "left", "Left"};
constexpr std::array<std::string_view, 3> functions{"none", "softmax", "sigmoid"};

const Schema any_text{{"type", "string"}};

Schema inputs_schema(const ServedList& models) {
  return openapi::text_or_tokens(any_text, models);
}

Schema texts_schema(const ServedList&) {
  return list_of(any_text);
}

Schema direction_schema(const ServedList&) {
  return or_null({{"enum", Schema::array({"left", "right", "Left", "Right"})}});
}

constexpr Field inputs_field{"inputs", other, required, inputs_schema};
constexpr Field prompt_field{"prompt_name", text, optional, openapi::prompt_names};
constexpr Field truncate_field{"truncate", flag};
constexpr Field direction_field{"truncation_direction", choice, optional, direction_schema, directions};

constexpr std::array<Field, 6> embed_table{{
    inputs_field,
    direction_field,
    {"dimensions", count, optional, openapi::dimensions_schema},
    truncate_field,
    prompt_field,
    {"normalize", flag},
}};

constexpr std::array<Field, 4> embed_all_table{{inputs_field, direction_field, truncate_field, prompt_field}};

constexpr std::array<Field, 5> embed_sparse_table{{
    inputs_field,
    direction_field,
    {"return_tokens", flag},
    truncate_field,
    prompt_field,
}};

constexpr std::array<Field, 5> classify_table{{
    {"inputs", other, required},
    {"raw_scores", flag},
    {"truncate", flag},
    {"truncation_direction", choice, optional, nullptr, directions},
    {"parameters", object},
}};

constexpr auto classify_parameter_table = std::to_array<Field>({
    {"function_to_apply", choice, optional, nullptr, functions},
    {"top_k", count},
    {"candidate_labels", other},
    {"hypothesis_template", text},
    {"multi_label", flag},
});

constexpr std::array<Field, 2> extraction_table{{{"inputs", other, required}, {"parameters", object}}};

constexpr auto entity_parameter_table = std::to_array<Field>({
    refused_field("aggregation_strategy", "postprocessing.aggregation of the model's gpux.yml sets it"),
    refused_field("ignore_labels", "all labels are answered but those outside of entities"),
    refused_field("stride", "the model's own windows are used"),
});

constexpr auto question_parameter_table = std::to_array<Field>({
    refused_field("top_k", "a question has one answer; accepted: 1", "1"),
    refused_field("max_answer_len", "postprocessing.max_answer_length of the model's gpux.yml sets it"),
    refused_field("handle_impossible_answer", "there is always an answer; accepted: false", "false"),
    refused_field("doc_stride", "the model's own windows are used"),
    refused_field("max_seq_len", "the model's own windows are used"),
    refused_field("max_question_len", "questions are not cut"),
    refused_field("align_to_words", "answers begin and end with tokens; accepted: false", "false"),
});

constexpr std::array<Field, 2> question_table{{{"question", text, required}, {"context", text, required}}};

constexpr std::array<Field, 6> rerank_table{{
    {"query", text, required},
    {"texts", other, required, texts_schema},
    {"raw_scores", flag},
    {"return_text", flag},
    {"truncate", flag},
    direction_field,
}};

constexpr std::array<Field, 2> sentences_table{{
    {"source_sentence", text, required},
    {"sentences", other, required, texts_schema},
}};

constexpr std::array<Field, 3> treatment_table{{direction_field, truncate_field, prompt_field}};

constexpr std::array<Field, 2> similarity_table{{
    {"inputs", object, required,
     [](const ServedList& models) { return openapi::object_schema(sentences_table, models); }},
    {"parameters", object, optional,
     [](const ServedList& models) { return or_null(openapi::object_schema(treatment_table, models)); }},
}};

constexpr std::array<Field, 3> tokenize_table{{
    {"inputs", other, required,
     [](const ServedList&) -> Schema {
       return {{"anyOf", Schema::array({any_text, list_of(any_text)})}};
     }},
    {"add_special_tokens", flag},
    prompt_field,
}};

constexpr std::array<Field, 2> decode_table{{
    {"ids", other, required,
     [](const ServedList& models) -> Schema {
       const Schema ids{{"type", "array"}, {"items", openapi::token_schema(models)}, {"minItems", 1}};
       return {{"anyOf", Schema::array({ids, list_of(ids)})}};
     }},
    {"skip_special_tokens", flag},
}};

std::vector<std::string> read_texts(const Json& value, const std::string& place) {
  std::vector<std::string> texts;
  for (TextInput& input : read_text_inputs(value, place)) {
    auto* text = std::get_if<std::string>(&input);
    if (text == nullptr) refuse_member(place, "is a list of numbers; accepted: texts");
    texts.push_back(std::move(*text));
  }
  return texts;
}

TextTreatment read_truncation(Members& members) {
  TextTreatment treatment;
  treatment.truncate = members.flag("truncate", true);
  const auto direction = members.choice("truncation_direction");
  treatment.truncate_left = direction.value_or(0) >= 2;
  return treatment;
}

TextTreatment read_treatment(Members& members) {
  TextTreatment treatment = read_truncation(members);
  treatment.prompt_name = members.text("prompt_name");
  return treatment;
}

}  // namespace

EmbedTexts read_embed(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", embed_table, reading.rules);
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  read.normalize = members.flag("normalize", true);
  read.dimensions = members.count("dimensions");
  members.finish();
  return read;
}

EmbedTexts read_embed_all(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", embed_all_table, reading.rules);
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  members.finish();
  return read;
}

EmbedTexts read_embed_sparse(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", embed_sparse_table, reading.rules);
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  read.return_tokens = members.flag("return_tokens", false);
  members.finish();
  return read;
}

namespace {

// As huggingface_hub's clients send them.
void read_zero_shot(Members& settings, ClassifyTexts& read) {
  const Json* labels = settings.find("candidate_labels");
  const std::string hypothesis_template = settings.text("hypothesis_template");
  const bool multi_label = settings.flag("multi_label", false);
  if (labels == nullptr) {
    if (!hypothesis_template.empty() || multi_label) {
      refuse_member("parameters.candidate_labels", "is missing, which hypothesis_template and multi_label are about");
    }
    return;
  }
  ZeroShotOptions& options = read.zero_shot.emplace();
  options.labels = read_texts(*labels, "parameters.candidate_labels");
  if (!hypothesis_template.empty()) options.hypothesis_template = hypothesis_template;
  options.multi_label = multi_label;
  pipeline::check_zero_shot(options);
  if (!read.pairs.empty()) refuse_member("inputs", "has a pair of texts; accepted with candidate_labels: texts");
  if (read.raw_scores || read.activation) {
    refuse_member("raw_scores",
                  "and parameters.function_to_apply are for a model's own labels, not for candidate_labels");
  }
  check_count(read.texts.size() * options.labels.size(), "inputs with each of parameters.candidate_labels");
}

}  // namespace

ClassifyTexts read_classify(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", classify_table, reading.rules);
  const Json& inputs = members.must_find("inputs");
  ClassifyTexts read;
  const auto add = [&](const Json& list, const std::string& place) {
    const bool fits = list.is_array() && (list.size() == 1 || list.size() == 2) && list.front().is_string() &&
                      list.back().is_string();
    if (!fits) refuse_member(place, "is neither a text nor a list of one or two");
    read.texts.push_back(list.front().get<std::string>());
    read.has_pair.push_back(list.size() == 2);
    read.pairs.push_back(list.size() == 2 ? list.back().get<std::string>() : std::string());
  };
  if (inputs.is_string()) {
    read.texts.push_back(inputs.get<std::string>());
  } else if (inputs.is_array() && !inputs.empty() && inputs.front().is_array()) {
    check_count(inputs.size(), "inputs");
    read.is_list = true;
    for (std::size_t i = 0; i < inputs.size(); ++i) add(inputs[i], fmt::format("inputs[{}]", i));
  } else {
    add(inputs, "inputs");
  }
  if (std::ranges::find(read.has_pair, true) == read.has_pair.end()) {
    read.pairs.clear();
    read.has_pair.clear();
  }
  read.raw_scores = members.flag("raw_scores", false);
  read.treatment = read_truncation(members);
  if (const Json* parameters = members.find("parameters")) {
    Members settings = members.inside(*parameters, "parameters", classify_parameter_table);
    const auto function = settings.choice("function_to_apply");
    if (function) read.activation = static_cast<Activation>(*function);
    read.top_k = settings.count("top_k");
    read_zero_shot(settings, read);
    settings.finish();
  }
  members.finish();
  return read;
}

namespace {

void refuse_parameters(Members& members, std::span<const Field> refused) {
  const Json* parameters = members.find("parameters");
  if (parameters == nullptr) return;
  members.inside(*parameters, "parameters", refused).finish();
}

std::string text_in(Members& members, std::string_view name) {
  const Json& value = members.must_find(name);
  if (!value.is_string()) refuse_member(members.name_of(name), "is no text");
  return value.get<std::string>();
}

}  // namespace

EntityTexts read_entities(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", extraction_table, reading.rules);
  const Json& inputs = members.must_find("inputs");
  EntityTexts read{.texts = read_texts(inputs, "inputs"), .is_list = inputs.is_array()};
  refuse_parameters(members, entity_parameter_table);
  members.finish();
  return read;
}

AskedQuestions read_questions(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation, BodyObjects::inputs);
  Members members(json, "", extraction_table, reading.rules);
  const Json& inputs = members.must_find("inputs");
  AskedQuestions read{.questions = {}, .contexts = {}, .is_list = inputs.is_array()};
  const auto add = [&](const Json& one, const std::string& place) {
    Members asked = members.inside(one, place, question_table);
    read.questions.push_back(text_in(asked, "question"));
    read.contexts.push_back(text_in(asked, "context"));
    asked.finish();
  };
  if (read.is_list) {
    check_count(inputs.size(), "inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) add(inputs[i], fmt::format("inputs[{}]", i));
  } else {
    add(inputs, "inputs");
  }
  refuse_parameters(members, question_parameter_table);
  members.finish();
  return read;
}

Rerank read_rerank(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", rerank_table, reading.rules);
  Rerank read;
  const Json& query = members.must_find("query");
  if (!query.is_string()) refuse_member("query", "is no text");
  read.query = query.get<std::string>();
  const Json& texts = members.must_find("texts");
  if (!texts.is_array()) refuse_member("texts", "is no list");
  read.texts = read_texts(texts, "texts");
  read.raw_scores = members.flag("raw_scores", false);
  read.return_text = members.flag("return_text", false);
  read.treatment = read_truncation(members);
  members.finish();
  return read;
}

bool is_similarity(std::string_view body) {
  const auto value_of = [](std::string_view object, std::string_view name) -> std::optional<std::string_view> {
    if (!is_object(object)) return std::nullopt;
    for (const JsonInput& member : split_object(object)) {
      if (member.name == name) return member.raw;
    }
    return std::nullopt;
  };
  try {
    const auto inputs = value_of(body, "inputs");
    return inputs && value_of(*inputs, "source_sentence");
  } catch (const Error&) {
    return false;  // whoever reads it next says what is wrong
  }
}

Similarity read_similarity(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", similarity_table, reading.rules);
  Members inputs = members.inside(members.must_find("inputs"), "inputs", sentences_table);
  Similarity read;
  const Json& source = inputs.must_find("source_sentence");
  if (!source.is_string()) refuse_member("inputs.source_sentence", "is no text");
  read.source = source.get<std::string>();
  const Json& sentences = inputs.must_find("sentences");
  if (!sentences.is_array()) refuse_member("inputs.sentences", "is no list");
  read.sentences = read_texts(sentences, "inputs.sentences");
  if (const Json* parameters = members.find("parameters")) {
    Members treatment = members.inside(*parameters, "parameters", treatment_table);
    read.treatment = read_treatment(treatment);
    treatment.finish();
  }
  inputs.finish();
  members.finish();
  return read;
}

Tokenize read_tokenize(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", tokenize_table, reading.rules);
  Tokenize read;
  read.inputs = read_texts(members.must_find("inputs"), "inputs");
  read.special_tokens = members.flag("add_special_tokens", true);
  read.prompt_name = members.text("prompt_name");
  members.finish();
  return read;
}

Decode read_decode(std::string_view body, const BodyReading& reading) {
  const Json json = parse_request(body, reading.cancellation);
  Members members(json, "", decode_table, reading.rules);
  const Json& ids = members.must_find("ids");
  Decode read;
  if (!ids.is_array()) refuse_member("ids", "is no list");
  for (TextInput& input : read_text_inputs(ids, "ids")) {
    auto* list = std::get_if<TokenIds>(&input);
    if (list == nullptr) refuse_member("ids", "has a text; accepted: token ids");
    read.ids.push_back(std::move(*list));
  }
  read.skip_special_tokens = members.flag("skip_special_tokens", true);
  members.finish();
  return read;
}

void append_tokens(std::string& out, std::string_view text, const text::Encoding& encoding,
                   const text::Tokenizer& tokenizer) {
  out += '[';
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const std::uint32_t id = encoding.ids()[i];
    const bool special = encoding.special_tokens_mask()[i] != 0;
    const std::size_t start = encoding.offsets()[2 * i], stop = encoding.offsets()[2 * i + 1];
    if (i != 0) out += ',';
    out += fmt::format(R"({{"id":{},"text":)", id);
    append_json_string(out, special ? tokenizer.token(id).value_or("") : text.substr(start, stop - start));
    out += special ? R"(,"special":true,"start":null,"stop":null})"
                   : fmt::format(R"(,"special":false,"start":{},"stop":{}}})", start, stop);
  }
  out += ']';
}

namespace tei {

std::span<const Field> embed_fields() {
  return embed_table;
}

std::span<const Field> embed_all_fields() {
  return embed_all_table;
}

std::span<const Field> embed_sparse_fields() {
  return embed_sparse_table;
}

std::span<const Field> rerank_fields() {
  return rerank_table;
}

std::span<const Field> similarity_fields() {
  return similarity_table;
}

std::span<const Field> tokenize_fields() {
  return tokenize_table;
}

std::span<const Field> decode_fields() {
  return decode_table;
}

}  // namespace tei

}  // namespace gpux::server
