#include "cli/inputs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "base/files.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "onnx/tensor_file.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/npy.h"
#include "tensor/npz.h"

namespace gpux::cli {
namespace {

constexpr std::size_t standard_input_limit = std::size_t{4} << 30;

std::optional<ElementType> tensor_type(const SignatureEntry& entry) {
  const ValueType* type = &entry.type;
  if (type->kind == ValueKind::optional && !type->inner.empty()) type = &type->inner.front();
  if (type->kind != ValueKind::tensor) return std::nullopt;
  return type->element;
}

std::string where_of(const std::filesystem::path& file) {
  return file.string();
}

NamedValues read_npz_file(const std::filesystem::path& file, const Signature& signature) {
  const auto mapped = std::make_shared<MappedFile>(file);
  NpzReading reading;
  reading.owner = mapped;
  reading.declared = [&](std::string_view name) { return tensor_type(runtime::input_entry(signature, name)); };
  NamedValues item;
  for (auto& [name, tensor] : read_npz(mapped->bytes(), reading)) item.emplace_back(name, std::move(tensor));
  return item;
}

bool is_picture(const std::string& extension) {
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".webp";
}

Value read_value_file(const std::filesystem::path& file, const SignatureEntry& entry,
                      const runtime::PictureInput* picture) {
  const std::string extension = lower(file.extension().string());
  if (is_picture(extension)) {
    if (picture == nullptr || picture->name != entry.name) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("'{}' is a picture, and input '{}' is given none: gpux.yml has to say under "
                              "'preprocessing' what becomes of it",
                              file.string(), entry.name));
    }
    const MappedFile mapped(file);
    return image::read_picture(mapped.text(), picture->recipe, {.base64 = false, .data_url = false});
  }
  if (extension == ".npy") {
    const auto mapped = std::make_shared<MappedFile>(file);
    return read_npy(mapped->bytes(), tensor_type(entry), mapped);
  }
  if (extension == ".pb") return onnx::read_value_file(file, entry.type);
  if (extension == ".json") {
    const MappedFile mapped(file);
    return runtime::read_json_input(mapped.text(), entry, picture);
  }
  throw Error(
      ErrorCode::invalid_input,
      fmt::format("'{}': of files for one input, .npy, .pb, .json and pictures (.png .jpg .jpeg .webp) are read",
                  file.string()));
}

runtime::Items read_file_input(const std::filesystem::path& file, const Signature& signature,
                               const runtime::PictureInput* picture) {
  const std::string extension = lower(file.extension().string());
  try {
    if (extension == ".json") {
      const MappedFile mapped(file);
      return runtime::read_json_items(mapped.text(), signature, picture);
    }
    if (extension == ".jsonl" || extension == ".ndjson") {
      const MappedFile mapped(file);
      return runtime::read_json_lines(mapped.text(), signature, picture);
    }
    if (extension == ".npz") return {{read_npz_file(file, signature)}, false};
    if (extension == ".npy" || extension == ".pb" || is_picture(extension)) {
      const SignatureEntry& entry = runtime::only_input(signature, file.string());
      return {{{{entry.name, read_value_file(file, entry, picture)}}}, false};
    }
  } catch (const Error& error) {
    throw error.code() == ErrorCode::invalid_input ? error.within(where_of(file)) : error;
  }
  const MappedFile mapped(file);
  if (is_object(mapped.text()) || is_array(mapped.text()))
    return runtime::read_json_items(mapped.text(), signature, picture);
  throw Error(
      ErrorCode::invalid_input,
      fmt::format("'{}': .json, .jsonl, .npz, .npy, .pb and pictures (.png .jpg .jpeg .webp) are read", file.string()));
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

NamedValue read_named(const std::string& text, const Signature& signature, const runtime::PictureInput* picture) {
  const SignatureEntry* entry = named_entry(text, signature);
  if (entry == nullptr) entry = &runtime::input_entry(signature, text.substr(0, text.find('=')));
  const std::string value = text.substr(entry->name.size() + 1);
  if (value.starts_with("@")) return {entry->name, read_value_file(value.substr(1), *entry, picture)};
  return {entry->name, runtime::read_json_input(value, *entry, picture)};
}

runtime::Items read_one(const std::string& text, const Signature& signature, const runtime::PictureInput* picture) {
  if (is_standard_input(text)) return runtime::read_json_items(read_standard_input(), signature, picture);
  if (text.starts_with("@")) return read_file_input(text.substr(1), signature, picture);
  const bool looks_like_json = is_object(text) || is_array(text) || text.starts_with('"');
  if (named_entry(text, signature) != nullptr || (!looks_like_json && text.find('=') != std::string::npos)) {
    return {{{read_named(text, signature, picture)}}, false};
  }
  if (looks_like_json || !std::filesystem::exists(text)) return runtime::read_json_items(text, signature, picture);
  throw Error(ErrorCode::usage, fmt::format("--input {} is a file: write --input @{}", text, text));
}

}  // namespace

std::string read_standard_input() {
  std::string text;
  std::array<char, 65536> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), stdin)) > 0;) {
    text.append(buffer.data(), count);
    if (text.size() > standard_input_limit) {
      throw Error(ErrorCode::invalid_input, "standard input is longer than 4 GiB: use a file");
    }
  }
  if (std::ferror(stdin) != 0) throw_file_error("read", "standard input", errno);
  return text;
}

bool is_standard_input(const std::string& text) {
  return text == "-" || text == "@-";
}

bool reads_standard_input(const InputFlags& flags) {
  return is_standard_input(flags.file) || std::any_of(flags.inputs.begin(), flags.inputs.end(), is_standard_input);
}

void add_input_flags(CLI::App& verb, InputFlags& flags) {
  verb.add_option("-i,--input", flags.inputs,
                  "JSON, @FILE (.json .jsonl .npz .npy .pb .png .jpg .webp), - for standard input, or NAME=JSON, "
                  "NAME=@FILE; repeatable")
      ->allow_extra_args(false);  // one text a flag: else CLI11 takes "[…]" apart
  verb.add_option("-f,--file", flags.file, "the same as --input @FILE");
}

bool given(const InputFlags& flags) {
  return !flags.inputs.empty() || !flags.file.empty();
}

runtime::Items read_inputs(const InputFlags& flags, const Signature& signature, const runtime::PictureInput* picture) {
  std::vector<std::string> texts = flags.inputs;
  if (!flags.file.empty()) texts.push_back(flags.file == "-" ? "-" : "@" + flags.file);
  if (texts.empty()) return {{NamedValues{}}, false};
  runtime::Items inputs;
  for (const std::string& text : texts) {
    runtime::Items part = read_one(text, signature, picture);
    if (texts.size() == 1) return part;
    if (part.is_list) throw Error(ErrorCode::usage, "a list of objects cannot be joined with other --input");
    if (inputs.items.empty()) inputs.items.emplace_back();
    NamedValues& item = inputs.items.front();
    item.insert(item.end(), part.items.front().begin(), part.items.front().end());
  }
  return inputs;
}

}  // namespace gpux::cli
