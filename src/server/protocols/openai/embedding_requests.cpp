#include "server/protocols/openai/embedding_requests.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/openapi/texts.h"
#include "server/protocols/request_json.h"

namespace gpux::server {
namespace {

using namespace openapi;
using enum FieldKind;
using enum FieldUse;

constexpr std::array<std::string_view, 2> part_types{"text", "image_url"}, modalities{"text", "image"},
    encodings{"float", "base64"};

Json input_schema(const ServedList& models) {
  const Json filled{{"type", "string"}, {"minLength", 1}}, texts = text_or_tokens(filled, models);
  if (!any_is(models, TextAbility::embed_images)) return texts;
  const Json image{{"type", "string"}, {"minLength", 1}, {"description", "JPEG, PNG or WebP: base64 or a data URL"}};
  Json parts = Json::array({object_schema({{"image", image}}, Json::array({"image"})),
                            object_schema({{"type", {{"const", "image_url"}}},
                                           {"image_url", object_schema({{"url", image}}, Json::array({"url"}))}},
                                          Json::array({"type", "image_url"}))});
  Json all = Json::array();
  if (any_is(models, TextAbility::embed)) {
    const Json text{{"type", "string"}, {"minLength", 1}};
    parts.push_back(object_schema({{"text", text}}, Json::array({"text"})));
    parts.push_back(object_schema({{"type", {{"const", "text"}}}, {"text", text}}, Json::array({"type", "text"})));
    all.push_back(texts);
    Json part_or_text = parts;
    part_or_text.push_back(text);
    all.push_back(list_of({{"anyOf", std::move(part_or_text)}}));
  } else {
    all.push_back(list_of({{"anyOf", parts}}));
  }
  for (Json& part : parts) all.push_back(std::move(part));
  return {{"anyOf", std::move(all)}};
}

constexpr std::string_view by_prompt = "accepted is prompt_name with /embed";
constexpr auto embedding_table = std::to_array<Field>({
    {"input", other, required, input_schema},
    {"model", text, optional, model_names},
    {"encoding_format", choice, optional, nullptr, encodings},
    {"dimensions", count, optional, dimensions_schema},
    ignored_field("user"),
    {"modality", choice, optional,
     [](const ServedList& models) {
       return any_is(models, TextAbility::embed_images) ? or_null({{"enum", modalities}}) : Json();
     },
     modalities},
    // What would change the vectors, by Cohere, Jina, NVIDIA, Voyage and vLLM.
    refused_field("input_type", by_prompt),
    refused_field("task", by_prompt),
    refused_field("instruction", by_prompt),
    refused_field("late_chunking", "each text has a vector of its own; accepted: false", "false"),
    refused_field("truncate_prompt_tokens", "texts are cut at the model's length"),
    refused_field("output_dimension", "accepted is dimensions"),
    refused_field("output_dtype", "accepted is encoding_format"),
    refused_field("embedding_type", "accepted is encoding_format"),
    refused_field("embedding_types", "accepted is encoding_format"),
});

// A part without "type", and one with it.
constexpr std::array<Field, 2> part_table{{{"type", choice, optional, nullptr, part_types}, {"text", text}}};
constexpr std::array<Field, 1> image_table{{{"image", text}}}, address_table{{{"image_url", other}}};

constexpr std::array<Field, 2> url_table{{{"url", text, required}, ignored_field("detail")}};

// {"text"}, {"image"}, {"type", "text"} or {"type", "image_url": {"url"}}.
std::variant<TextInput, EncodedImage> read_part(const RequestJson& object, const std::string& place,
                                                MemberRules* rules) {
  Members members(object, place, part_table, rules);
  const auto type = members.choice("type");
  members.also(type ? address_table : image_table);
  const RequestJson* text = members.find("text");
  const RequestJson* image = type ? nullptr : members.find("image");
  const RequestJson* address = type ? members.find("image_url") : nullptr;
  members.finish();
  const int given =
      static_cast<int>(text != nullptr) + static_cast<int>(image != nullptr) + static_cast<int>(address != nullptr);
  if (given != 1 || (type && (*type == 0) != (text != nullptr))) {
    refuse_body(fmt::format(
        R"({} is neither {{"text"}} nor {{"image"}}, {{"type": "text", "text"}} nor {{"type": "image_url", )"
        R"("image_url"}})",
        place));
  }
  if (text != nullptr) {
    if (!text->is_string()) refuse_member(place + ".text", "is no text");
    return TextInput(text->get<std::string>());
  }
  if (image != nullptr) return read_image(*image, place + ".image");
  if (!address->is_object()) return read_image(*address, place + ".image_url");
  Members url = members.inside(*address, place + ".image_url", url_table);
  EncodedImage read = read_image(url.must_find("url"), place + ".image_url.url");
  url.finish();
  return read;
}

// Of "input": what read_text_inputs() accepts, with `strings_are_images` images in place of texts; and objects of
// read_part(), alone or in a list with texts.
std::vector<std::variant<TextInput, EncodedImage>> read_mixed_inputs(const RequestJson& value, bool strings_are_images,
                                                                     MemberRules* rules) {
  std::vector<std::variant<TextInput, EncodedImage>> inputs;
  if (value.is_object()) {
    inputs.push_back(read_part(value, "input", rules));
    return inputs;
  }
  const bool has_objects =
      value.is_array() && std::ranges::any_of(value, [](const RequestJson& one) { return one.is_object(); });
  if (!has_objects && !strings_are_images) {
    for (TextInput& text : read_text_inputs(value, "input")) inputs.emplace_back(std::move(text));
    return inputs;
  }
  if (value.is_string()) {
    inputs.emplace_back(read_image(value, "input"));
    return inputs;
  }
  if (!value.is_array()) refuse_member("input", "is neither an image nor a list");
  check_count(value.size(), "input");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("input[{}]", i);
    if (value[i].is_object()) {
      inputs.push_back(read_part(value[i], place, rules));
    } else if (strings_are_images) {
      inputs.emplace_back(read_image(value[i], place));
    } else if (value[i].is_string()) {
      inputs.emplace_back(TextInput(value[i].get<std::string>()));
    } else {
      refuse_member(place, "is neither a text nor an object with an image or a text");
    }
  }
  return inputs;
}

}  // namespace

std::span<const Field> embedding_fields() {
  return embedding_table;
}

OpenAiEmbeddings read_openai_embeddings(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation, BodyObjects::inputs);
  Members members(json, "", embedding_table, reading.rules);
  OpenAiEmbeddings read;
  const RequestJson& input = members.must_find("input");
  const bool is_image = members.choice("modality").value_or(0) == 1;
  read.inputs = read_mixed_inputs(input, is_image, reading.rules);
  for (std::size_t i = 0; i < read.inputs.size(); ++i) {
    const auto* text = std::get_if<TextInput>(&read.inputs[i]);
    const auto* words = text == nullptr ? nullptr : std::get_if<std::string>(text);
    if (words != nullptr && words->empty()) refuse_member(fmt::format("input[{}]", i), "is empty");
  }
  read.model = members.text("model");
  read.dimensions = members.count("dimensions");
  read.base64 = members.choice("encoding_format").value_or(0) == 1;
  members.finish();
  return read;
}

}  // namespace gpux::server
