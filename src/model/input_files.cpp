#include "model/input_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "base/standard_input.h"
#include "embedding/text_source.h"
#include "gpux/error.h"
#include "image/decode.h"
#include "onnx/tensor_file.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_writer.h"
#include "tensor/npy.h"
#include "tensor/npz.h"

namespace gpux {
namespace {

std::optional<ElementType> tensor_type(const SignatureEntry& entry) {
  const ValueType* type = &entry.type;
  if (type->kind == ValueKind::optional && !type->inner.empty()) type = &type->inner.front();
  if (type->kind != ValueKind::tensor) return std::nullopt;
  return type->element;
}

std::string where_of(const std::filesystem::path& file) {
  return file.string();
}

NamedValues read_npz_content(std::span<const std::byte> bytes, const std::shared_ptr<void>& owner,
                             const Signature& signature) {
  NpzReading reading;
  reading.owner = owner;
  reading.declared = [&](std::string_view name) { return tensor_type(pipeline::input_entry(signature, name)); };
  NamedValues item;
  for (auto& [name, tensor] : read_npz(bytes, reading)) item.emplace_back(name, std::move(tensor));
  return item;
}

bool is_image(const std::string& extension) {
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".webp";
}

bool takes_text(const SignatureEntry& entry) {
  return tensor_type(entry) == ElementType::string;
}

// The first input of texts that is not given by its name: a required one, or where no other is missing an optional one;
// null where there is none.
const SignatureEntry* text_input(const Signature& signature, std::span<const std::string> given) {
  const SignatureEntry* optional = nullptr;
  bool is_one_missing = false;
  for (const SignatureEntry& entry : signature.inputs) {
    if (std::ranges::find(given, entry.name) != given.end()) continue;
    if (takes_text(entry) && entry.required) return &entry;
    if (takes_text(entry) && optional == nullptr) optional = &entry;
    is_one_missing = is_one_missing || entry.required;
  }
  return is_one_missing ? nullptr : optional;
}

// Logs begin with "[INFO]", quotations with a quote: these are JSON only where all of it is.
bool is_json(std::string_view text) {
  if (is_object(text)) return true;
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || (text[begin] != '[' && text[begin] != '"')) return false;
  return nlohmann::json::accept(text);
}

Value text_value(std::string_view text, const SignatureEntry& entry) {
  std::string json;
  append_json_string(json, text);
  return pipeline::read_json_input(json, entry);
}

Value image_value(std::string_view bytes, const ImageInput& image) {
  return image::read_image(bytes, image.recipe, {.base64 = false, .data_url = false});
}

Value read_value_file(const std::filesystem::path& file, const SignatureEntry& entry, const ImageInput* image) {
  const std::string extension = lower(file.extension().string());
  if (is_image(extension)) {
    if (image == nullptr || image->name != entry.name) {
      throw Error(ErrorCode::invalid_input,
                  format_message("'{}' is an image, and input '{}' is given none: gpux.yml has to say under "
                                 "'preprocessing' what becomes of it",
                                 file_at(file), entry.name));
    }
    const MappedFile mapped(file);
    return image_value(mapped.text(), *image);
  }
  if (extension == ".npy") {
    const auto mapped = std::make_shared<MappedFile>(file);
    return read_npy(mapped->bytes(), tensor_type(entry), mapped);
  }
  if (extension == ".pb") return onnx::read_value_file(file, entry.type);
  if (extension == ".json") {
    const MappedFile mapped(file);
    return pipeline::read_json_input(mapped.text(), entry, image);
  }
  if (takes_text(entry))
    return text_value(embedding::one_text_of("@" + file.string(), {setting_named("input")}), entry);
  throw Error(
      ErrorCode::invalid_input,
      format_message("'{}': of files for one input, .npy, .pb, .json and images (.png .jpg .jpeg .webp) are read",
                     file_at(file)));
}

/// What the other inputs of a call are, for a text or image that does not say its input's name.
struct Around {
  const Signature& signature;
  const ImageInput* image;         ///< may be null
  std::vector<std::string> given;  ///< names of inputs that are given by name
};

// What it is shows in its bytes: of standard input and of files without a known extension.
pipeline::Items read_content(std::string_view content, const std::shared_ptr<void>& owner, const std::string& what,
                             const Around& around) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(content));
  if (const auto format = image::format_of(bytes)) {
    if (around.image == nullptr) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("{} is a {} image, and the model is given none: gpux.yml has to say under "
                              "'preprocessing' what becomes of it",
                              what, image::name_of(*format)));
    }
    return {{{{around.image->name, image_value(content, *around.image)}}}, false};
  }
  if (content.starts_with("\x93NUMPY")) {
    const SignatureEntry& entry = pipeline::only_input(around.signature, what);
    return {{{{entry.name, read_npy(bytes, tensor_type(entry), owner)}}}, false};
  }
  if (content.starts_with("PK\x03\x04")) return {{read_npz_content(bytes, owner, around.signature)}, false};
  const SignatureEntry* entry = text_input(around.signature, around.given);
  if (entry == nullptr || is_json(content)) {
    return pipeline::read_json_items(content, around.signature, around.image);
  }
  return {{{{entry->name, text_value(embedding::plain_text(content), *entry)}}}, false};
}

bool is_recognised(std::string_view content, const Around& around) {
  return image::format_of(std::as_bytes(std::span(content))) || content.starts_with("\x93NUMPY") ||
         content.starts_with("PK\x03\x04") || is_object(content) || is_array(content) ||
         text_input(around.signature, around.given) != nullptr;
}

pipeline::Items read_file_input(const std::filesystem::path& file, const Around& around) {
  const Signature& signature = around.signature;
  const ImageInput* image = around.image;
  const std::string extension = lower(file.extension().string());
  const auto mapped = std::make_shared<MappedFile>(file);
  try {
    if (extension == ".json") return pipeline::read_json_items(mapped->text(), signature, image);
    if (extension == ".jsonl" || extension == ".ndjson") {
      return pipeline::read_json_lines(mapped->text(), signature, image);
    }
    if (extension == ".npz") return {{read_npz_content(mapped->bytes(), mapped, signature)}, false};
    if (extension == ".npy" || extension == ".pb" || is_image(extension)) {
      const SignatureEntry& entry = pipeline::only_input(signature, file.string());
      return {{{{entry.name, read_value_file(file, entry, image)}}}, false};
    }
    if (!is_recognised(mapped->text(), around)) {
      throw Error(ErrorCode::invalid_input,
                  ".json, .jsonl, .npz, .npy, .pb and images (.png .jpg .jpeg .webp) are read, and texts for inputs "
                  "of texts");
    }
    return read_content(mapped->text(), mapped, "it", around);
  } catch (const Error& error) {
    throw error.code() == ErrorCode::invalid_input ? error.within(where_of(file)) : error;
  }
}

// "x=[1,2]", "x=@x.npy": the longest input's name that fits, as names may hold '='.
const SignatureEntry* named_entry(const std::string& text, const Signature& signature) {
  const SignatureEntry* found = nullptr;
  for (const SignatureEntry& entry : signature.inputs) {
    if (text.size() > entry.name.size() && text.starts_with(entry.name) && text[entry.name.size()] == '=' &&
        (found == nullptr || found->name.size() < entry.name.size())) {
      found = &entry;
    }
  }
  return found;
}

NamedValue read_named(const std::string& text, const Around& around) {
  const SignatureEntry* entry = named_entry(text, around.signature);
  if (entry == nullptr) entry = &pipeline::input_entry(around.signature, text.substr(0, text.find('=')));
  const std::string value = text.substr(entry->name.size() + 1);
  if (value.starts_with("@")) return {entry->name, read_value_file(value.substr(1), *entry, around.image)};
  if (takes_text(*entry) && (!is_json(value) || is_object(value))) {
    embedding::check_text_argument(value, format_message("{} {}", setting_named("input"), entry->name));
    return {entry->name, text_value(value, *entry)};
  }
  return {entry->name, pipeline::read_json_input(value, *entry, around.image)};
}

pipeline::Items read_piped(const Around& around) {
  const auto content = std::make_shared<std::string>(read_standard_input());
  try {
    return read_content(*content, content, "it", around);
  } catch (const Error& error) {
    throw error.code() == ErrorCode::invalid_input ? error.within("standard input") : error;
  }
}

// A text is for an input of texts; where the model has none it is JSON or a mistake.
pipeline::Items read_text(const std::string& text, const Message& where, const Around& around) {
  const SignatureEntry* entry = text_input(around.signature, around.given);
  if (is_json(text)) return pipeline::read_json_items(text, around.signature, around.image);
  embedding::check_text_argument(text, where);
  if (entry == nullptr) return pipeline::read_json_items(text, around.signature, around.image);
  return {{{{entry->name, text_value(text, *entry)}}}, false};
}

// "a=b" is a name with its value, a sentence with an equals sign in it is not.
bool has_name(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals != std::string::npos && equals != 0 && text.find_first_of(" \t\r\n") > equals;
}

bool is_named(const std::string& text, const Signature& signature) {
  if (is_standard_input(text) || text.starts_with("@")) return false;
  return named_entry(text, signature) != nullptr || (!is_json(text) && has_name(text));
}

pipeline::Items read_one(const std::string& text, const Around& around) {
  if (is_standard_input(text)) return read_piped(around);
  if (text.starts_with("@")) return read_file_input(text.substr(1), around);
  if (is_named(text, around.signature)) return {{{read_named(text, around)}}, false};
  return read_text(text, {setting_named("input")}, around);
}

// Behind MODEL a text is a text, whatever it has before an equals sign.
pipeline::Items read_word(const std::string& word, const Around& around) {
  if (is_standard_input(word)) return read_piped(around);
  if (word.starts_with("@")) return read_file_input(word.substr(1), around);
  return read_text(word, {"run"}, around);
}

}  // namespace

bool reads_standard_input(const InputFlags& flags) {
  return is_standard_input(flags.file) || std::ranges::any_of(flags.inputs, is_standard_input) ||
         std::ranges::any_of(flags.words, is_standard_input);
}

bool given(const InputFlags& flags) {
  return !flags.inputs.empty() || !flags.file.empty() || !flags.words.empty();
}

pipeline::Items read_inputs(const InputFlags& flags, const Signature& signature, const ImageInput* image) {
  std::vector<std::string> texts = flags.inputs;
  if (!flags.file.empty()) texts.push_back(flags.file == "-" ? "-" : "@" + flags.file);
  if (texts.empty() && flags.words.empty()) return {{NamedValues{}}, false};
  Around around{.signature = signature, .image = image, .given = {}};
  for (const std::string& text : texts) {
    if (!is_named(text, signature)) continue;
    const SignatureEntry* entry = named_entry(text, signature);
    if (entry != nullptr) around.given.push_back(entry->name);
  }
  std::vector<pipeline::Items> parts;
  for (const std::string& word : flags.words) parts.push_back(read_word(word, around));
  const bool is_list = flags.words.size() > 1;
  if (is_list && !texts.empty()) {
    throw Error(ErrorCode::usage,
                format_message("several texts are a list, which cannot be joined with {}", setting_named("input")));
  }
  for (const std::string& text : texts) parts.push_back(read_one(text, around));
  if (parts.size() == 1) return std::move(parts.front());
  pipeline::Items inputs{.items = {}, .is_list = is_list};
  for (pipeline::Items& part : parts) {
    if (part.is_list) throw Error(ErrorCode::usage, "a list of objects cannot be joined with other inputs");
    if (is_list || inputs.items.empty()) inputs.items.emplace_back();
    NamedValues& item = inputs.items.back();
    std::ranges::move(part.items.front(), std::back_inserter(item));
  }
  return inputs;
}

std::optional<pipeline::Items> read_piped_inputs(const Signature& signature, const ImageInput* image) {
  const bool needs_some = std::ranges::any_of(signature.inputs, &SignatureEntry::required);
  if (!needs_some || ::isatty(STDIN_FILENO) != 0) return std::nullopt;
  const int first = std::fgetc(stdin);
  if (first == EOF) return std::nullopt;
  std::ungetc(first, stdin);
  return read_piped({.signature = signature, .image = image, .given = {}});
}

}  // namespace gpux
