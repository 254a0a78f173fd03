#include "generation/genai_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "checkpoint/json_settings.h"
#include "generation/generation_config.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

constexpr std::string_view layer_number = "%d";

struct NamedPart {
  const char* key;
  std::string DecoderNames::*name;
  bool has_layer;
};

constexpr std::array input_names{NamedPart{"input_ids", &DecoderNames::input_ids, false},
                                 NamedPart{"attention_mask", &DecoderNames::attention_mask, false},
                                 NamedPart{"position_ids", &DecoderNames::position_ids, false},
                                 NamedPart{"past_key_names", &DecoderNames::past_key, true},
                                 NamedPart{"past_value_names", &DecoderNames::past_value, true}};
constexpr std::array output_names{NamedPart{"logits", &DecoderNames::logits, false},
                                  NamedPart{"present_key_names", &DecoderNames::present_key, true},
                                  NamedPart{"present_value_names", &DecoderNames::present_value, true}};

template <std::size_t count>
void read_names(const JsonSettings& object, const std::array<NamedPart, count>& parts, DecoderNames& names) {
  for (const NamedPart& part : parts) {
    const std::string name = object.text(part.key);
    if (name.empty()) continue;
    const std::size_t at = name.find(layer_number);
    const bool has_layer = at != std::string::npos && name.find('%', at + 1) == std::string::npos;
    if (part.has_layer && !has_layer) object.refuse_value(part.key, name, "a name with %d for the layer");
    names.*part.name = name;
  }
}

// Parts of other models than one decoder over tokens.
void refuse_other_parts(const JsonSettings& model, const JsonSettings& decoder) {
  for (const char* key : {"encoder", "encoder_decoder_init", "embedding", "vision", "speech", "draft", "mtp"}) {
    if (const auto* value = model.find(key)) model.refuse_value(key, *value, "a model of one decoder alone");
  }
  if (const auto* value = decoder.find("pipeline")) {
    decoder.refuse_value("pipeline", *value, "one ONNX file for the whole decoder");
  }
  if (const auto* value = decoder.find("sliding_window")) {
    decoder.refuse_value("sliding_window", *value,
                         "a cache of all tokens (onnxruntime-genai's builder makes it without "
                         "its option for windowed caches)");
  }
  const JsonSettings inputs = decoder.object("inputs"), outputs = decoder.object("outputs");
  if (const auto* value = inputs.find("past_names")) {
    inputs.refuse_value("past_names", *value, "past_key_names and past_value_names: keys and values apart");
  }
  if (const auto* value = outputs.find("present_names")) {
    outputs.refuse_value("present_names", *value, "present_key_names and present_value_names: keys and values apart");
  }
}

// A file of the folder.
std::string file_in(const JsonSettings& decoder) {
  const std::filesystem::path file = decoder.text("filename");
  const bool leaves_folder = std::ranges::find(file, "..") != file.end();
  if (file.is_absolute() || leaves_folder) {
    decoder.refuse_value("filename", file.string(), "the name of a file in the folder");
  }
  return file.string();
}

}  // namespace

std::string name_of_layer(const std::string& pattern, std::size_t layer) {
  const std::size_t at = pattern.find(layer_number);
  if (at == std::string::npos) return pattern;
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + layer_number.size()));
}

std::optional<GenaiConfig> read_genai_config(const std::filesystem::path& folder) {
  const JsonSettings file(folder / "genai_config.json");
  if (!file.exists()) return std::nullopt;
  const JsonSettings model = file.object("model"), decoder = model.object("decoder");
  if (!decoder.exists()) file.refuse("has no model.decoder");
  refuse_other_parts(model, decoder);
  GenaiConfig config;
  config.file = file_in(decoder);
  read_names(decoder.object("inputs"), input_names, config.names);
  read_names(decoder.object("outputs"), output_names, config.names);
  constexpr std::uint64_t max_head_size = 1 << 16;
  const std::uint64_t head_size = decoder.count("head_size").value_or(0);
  if (head_size > max_head_size) decoder.refuse_value("head_size", head_size, "up to 65536");
  config.head_size = static_cast<std::int64_t>(head_size);
  const auto context = model.count("context_length");
  if (!context || *context == 0) file.refuse("has no model.context_length");
  config.context_length = *context;
  config.defaults.end_tokens = tokens_in(model, "eos_token_id");
  config.defaults.sampling = sampling_in(file.object("search"));
  return config;
}

}  // namespace gpux::generation
