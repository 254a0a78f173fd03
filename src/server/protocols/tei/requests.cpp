#include "server/protocols/tei/requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "server/protocols/request_json.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

using Json = RequestJson;

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
  const auto direction = members.choice("truncation_direction", {"right", "Right", "left", "Left"});
  treatment.truncate_left = direction.value_or(0) >= 2;
  return treatment;
}

TextTreatment read_treatment(Members& members) {
  TextTreatment treatment = read_truncation(members);
  treatment.prompt_name = members.text("prompt_name");
  return treatment;
}

}  // namespace

EmbedTexts read_embed(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  read.normalize = members.flag("normalize", true);
  read.dimensions = members.count("dimensions");
  members.refuse_others();
  return read;
}

EmbedTexts read_embed_all(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  members.refuse_others();
  return read;
}

EmbedTexts read_embed_sparse(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  EmbedTexts read;
  read.inputs = read_text_inputs(members.must_find("inputs"), "inputs");
  read.treatment = read_treatment(members);
  read.return_tokens = members.flag("return_tokens", false);
  members.refuse_others();
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
  pipeline::ZeroShotOptions& options = read.zero_shot.emplace();
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

ClassifyTexts read_classify(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
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
    Members settings(*parameters, "parameters");
    const auto function = settings.choice("function_to_apply", {"none", "softmax", "sigmoid"});
    if (function) read.activation = static_cast<Activation>(*function);
    read.top_k = settings.count("top_k");
    read_zero_shot(settings, read);
    settings.refuse_others();
  }
  members.refuse_others();
  return read;
}

Rerank read_rerank(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
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
  members.refuse_others();
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

Similarity read_similarity(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  Members inputs(members.must_find("inputs"), "inputs");
  Similarity read;
  const Json& source = inputs.must_find("source_sentence");
  if (!source.is_string()) refuse_member("inputs.source_sentence", "is no text");
  read.source = source.get<std::string>();
  const Json& sentences = inputs.must_find("sentences");
  if (!sentences.is_array()) refuse_member("inputs.sentences", "is no list");
  read.sentences = read_texts(sentences, "inputs.sentences");
  if (const Json* parameters = members.find("parameters")) {
    Members treatment(*parameters, "parameters");
    read.treatment = read_treatment(treatment);
    treatment.refuse_others();
  }
  inputs.refuse_others();
  members.refuse_others();
  return read;
}

Tokenize read_tokenize(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  Tokenize read;
  read.inputs = read_texts(members.must_find("inputs"), "inputs");
  read.special_tokens = members.flag("add_special_tokens", true);
  read.prompt_name = members.text("prompt_name");
  members.refuse_others();
  return read;
}

Decode read_decode(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation);
  Members members(json, "");
  const Json& ids = members.must_find("ids");
  Decode read;
  if (!ids.is_array()) refuse_member("ids", "is no list");
  for (TextInput& input : read_text_inputs(ids, "ids")) {
    auto* list = std::get_if<TokenIds>(&input);
    if (list == nullptr) refuse_member("ids", "has a text; accepted: token ids");
    read.ids.push_back(std::move(*list));
  }
  read.skip_special_tokens = members.flag("skip_special_tokens", true);
  members.refuse_others();
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

}  // namespace gpux::server
