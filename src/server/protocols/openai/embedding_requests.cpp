#include "server/protocols/openai/embedding_requests.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/request_json.h"

namespace gpux::server {
namespace {

using Json = RequestJson;

// {"text"}, {"image"}, {"type", "text"} or {"type", "image_url": {"url"}}.
std::variant<TextInput, ImageInput> read_part(const Json& object, const std::string& place) {
  Members members(object, place);
  const auto type = members.choice("type", {"text", "image_url"});
  const Json* text = members.find("text");
  const Json* image = type ? nullptr : members.find("image");
  const Json* address = type ? members.find("image_url") : nullptr;
  members.refuse_others();
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
  Members url(*address, place + ".image_url");
  ImageInput read = read_image(url.must_find("url"), place + ".image_url.url");
  (void)url.text("detail");  // of OpenAI's own models
  url.refuse_others();
  return read;
}

// Of "input": what read_text_inputs() accepts, with `strings_are_images` images in place of texts; and objects of
// read_part(), alone or in a list with texts.
std::vector<std::variant<TextInput, ImageInput>> read_mixed_inputs(const Json& value, bool strings_are_images) {
  std::vector<std::variant<TextInput, ImageInput>> inputs;
  if (value.is_object()) {
    inputs.push_back(read_part(value, "input"));
    return inputs;
  }
  const bool has_objects =
      value.is_array() && std::ranges::any_of(value, [](const Json& one) { return one.is_object(); });
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
      inputs.push_back(read_part(value[i], place));
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

OpenAiEmbeddings read_openai_embeddings(std::string_view body, const Cancellation& cancellation) {
  const Json json = parse_request(body, cancellation, BodyObjects::inputs);
  Members members(json, "");
  OpenAiEmbeddings read;
  const Json& input = members.must_find("input");
  const bool is_image = members.choice("modality", {"text", "image"}).value_or(0) == 1;
  read.inputs = read_mixed_inputs(input, is_image);
  for (std::size_t i = 0; i < read.inputs.size(); ++i) {
    const auto* text = std::get_if<TextInput>(&read.inputs[i]);
    const auto* words = text == nullptr ? nullptr : std::get_if<std::string>(text);
    if (words != nullptr && words->empty()) refuse_member(fmt::format("input[{}]", i), "is empty");
  }
  read.model = members.text("model");
  read.dimensions = members.count("dimensions");
  read.base64 = members.choice("encoding_format", {"float", "base64"}).value_or(0) == 1;
  (void)members.text("user");  // a label for OpenAI's own records
  members.refuse_others();
  return read;
}

}  // namespace gpux::server
