#include "pipeline/json_items.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "pipeline/labels.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"

namespace gpux::pipeline {
namespace {

std::vector<std::string> names_of(const Signature& signature) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : signature.inputs) names.push_back(entry.name);
  return names;
}

NamedValues read_object(std::string_view text, const Signature& signature, const ImageInput* image,
                        Images images = Images::read) {
  NamedValues item;
  for (const JsonInput& member : split_object(text)) {
    const SignatureEntry& entry = input_entry(signature, member.name);
    item.emplace_back(entry.name, read_json_input(member.raw, entry, image, images));
  }
  return item;
}

void append_score(std::string& out, double score, NonFinite nonfinite) {
  append_json(out, Tensor::of<double>({}, std::span<const double>(&score, 1)), nonfinite);
}

void append_labels(std::string& out, const Tensor& output, const DeclaredValue& declared, NonFinite nonfinite) {
  out += '[';
  bool first_row = true;
  for (const auto& row : label_scores(declared, output)) {
    if (!first_row) out += ", ";
    first_row = false;
    out += '[';
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i != 0) out += ", ";
      out += "{\"label\": ";
      append_json_string(out, row[i].label);
      out += ", \"score\": ";
      append_score(out, row[i].score, nonfinite);
      out += '}';
    }
    out += ']';
  }
  out += ']';
}

std::vector<std::pair<const Tensor*, const DeclaredValue*>> labelled(const NamedValues& result,
                                                                     std::span<const DeclaredValue> declared) {
  std::vector<std::pair<const Tensor*, const DeclaredValue*>> found;
  for (const DeclaredValue& output : declared) {
    if (output.labels.empty()) continue;
    const Value* value = find(result, output.name);
    if (value != nullptr && value->tensor() != nullptr) found.emplace_back(value->tensor(), &output);
  }
  return found;
}

bool is_json(std::string_view name, std::span<const DeclaredValue> declared) {
  return std::any_of(declared.begin(), declared.end(),
                     [&](const DeclaredValue& output) { return output.is_json && output.name == name; });
}

// The text of {"b64": TEXT}, which is how TensorFlow Serving writes bytes; empty for all else.
std::string_view base64_text(std::string_view value) {
  if (!is_object(value)) return {};
  const std::vector<JsonInput> members = split_object(value);
  return members.size() == 1 && members.front().name == "b64" ? members.front().raw : std::string_view();
}

// Base64 in quotes as the text in quotes that it stands for.
std::string decoded_text(std::string_view base64, const std::string& name) {
  const bool is_quoted = base64.size() >= 2 && base64.front() == '"' && base64.back() == '"';
  const auto bytes = is_quoted ? from_base64(base64.substr(1, base64.size() - 2)) : std::nullopt;
  if (!bytes) throw Error(ErrorCode::invalid_input, fmt::format("input '{}': b64 is no text in base64", name));
  const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  if (!is_utf8(text)) throw Error(ErrorCode::invalid_input, fmt::format("input '{}': b64 is no text in UTF-8", name));
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

void append_json_texts(std::string& out, const Tensor& texts) {
  out += '[';
  bool first = true;
  for (const std::string& text : texts.strings()) {
    if (!first) out += ", ";
    first = false;
    out += text;
  }
  out += ']';
}

}  // namespace

const SignatureEntry& input_entry(const Signature& signature, std::string_view name) {
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.name == name) return entry;
  }
  const std::vector<std::string> names = names_of(signature);
  const std::string_view near = nearest(name, names);
  throw Error(ErrorCode::invalid_input,
              fmt::format("there is no input '{}'{}; inputs: {}", utf8_prefix(name, 80),
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(names)));
}

const SignatureEntry& only_input(const Signature& signature, const std::string& what) {
  const SignatureEntry* only = nullptr;
  for (const SignatureEntry& entry : signature.inputs) {
    if (!entry.required) continue;
    if (only != nullptr) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("{} has no input's name, and the model has several: give NAME=… with {}", what,
                              join(names_of(signature))));
    }
    only = &entry;
  }
  if (only == nullptr && signature.inputs.size() == 1) only = &signature.inputs.front();
  if (only == nullptr)
    throw Error(ErrorCode::invalid_input, fmt::format("{} was given, but the model needs no input", what));
  return *only;
}

Value read_json_input(std::string_view text, const SignatureEntry& entry, const ImageInput* image, Images images) {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(space);
  const bool is_text = begin != std::string_view::npos && text[begin] == '"';
  const std::size_t second = is_array(text) ? text.find_first_not_of(space, begin + 1) : std::string_view::npos;
  const bool is_list = second != std::string_view::npos && text[second] == '"';
  ValueType texts;
  texts.kind = ValueKind::tensor;
  texts.element = ElementType::string;
  texts.dimensions = std::vector<Dimension>(1);
  // A text alone stands for a list of one.
  const auto read_texts = [&](const ValueType& type) {
    return is_text ? read_json_value(fmt::format("[{}]", text), type, entry.name)
                   : read_json_value(text, type, entry.name);
  };
  if (image != nullptr && image->name == entry.name && (is_text || is_list)) {
    try {
      Value given = read_texts(texts);
      if (images == Images::as_given) return given;
      return read_images(*image, given.tensor()->strings());
    } catch (const Error& error) {
      throw error.within(fmt::format("input '{}'", entry.name));
    }
  }
  const ValueType& type = entry.type;
  const bool takes_texts = type.kind == ValueKind::tensor && type.element == ElementType::string && type.dimensions &&
                           type.dimensions->size() == 1 && type.dimensions->front().size.value_or(1) == 1;
  return takes_texts ? read_texts(type) : read_json_value(text, type, entry.name);
}

Items read_json_lines(std::string_view text, const Signature& signature, const ImageInput* image) {
  Items inputs;
  inputs.is_list = true;
  const std::vector<std::string_view> lines = split_lines(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    try {
      inputs.items.push_back(read_object(lines[i], signature, image));
    } catch (const Error& error) {
      throw error.within(fmt::format("item {}", i));
    }
  }
  return inputs;
}

UnreadItems split_json_items(std::string_view text) {
  UnreadItems unread;
  if (is_object(text)) {
    unread.items = split_lines(text);
    unread.is_list = unread.items.size() > 1;
    // What is wrong in an object alone is told by the place in the whole text.
    if (!unread.is_list) unread.items = {text};
    return unread;
  }
  if (is_array(text)) {
    // The first element tells; the numbers of a bare value are not taken apart one by one.
    unread.is_list = true;
    visit_array(text, [&](std::string_view first) {
      unread.is_list = is_object(first);
      return false;
    });
    if (unread.is_list) {
      unread.items = split_array(text);
      return unread;
    }
  }
  unread.items = {text};
  unread.is_bare = true;
  return unread;
}

NamedValues read_json_item(const UnreadItems& unread, std::size_t index, const Signature& signature,
                           const ImageInput* image, Images images) {
  const std::string_view text = unread.items.at(index);
  if (!unread.is_bare) return read_object(text, signature, image, images);
  const SignatureEntry& entry = only_input(signature, "a JSON value");
  return {{entry.name, read_json_input(text, entry, image, images)}};
}

NamedValues read_json_row(std::string_view text, const Signature& signature, const ImageInput* image, Images images) {
  const auto read = [&](std::string_view value, const SignatureEntry& entry) {
    std::string decoded;
    if (const std::string_view base64 = base64_text(value); !base64.empty()) {
      const bool is_image = image != nullptr && image->name == entry.name;
      value = is_image ? base64 : std::string_view(decoded = decoded_text(base64, entry.name));
    }
    const bool has_axis =
        entry.type.kind == ValueKind::tensor && !(entry.type.dimensions && entry.type.dimensions->empty());
    return has_axis ? read_json_input(fmt::format("[{}]", value), entry, image, images)
                    : read_json_input(value, entry, image, images);
  };
  NamedValues row;
  if (is_object(text) && base64_text(text).empty()) {
    for (const JsonInput& member : split_object(text)) {
      const SignatureEntry& entry = input_entry(signature, member.name);
      row.emplace_back(entry.name, read(member.raw, entry));
    }
    return row;
  }
  const SignatureEntry& entry = only_input(signature, "a JSON value");
  row.emplace_back(entry.name, read(text, entry));
  return row;
}

Items read_json_items(std::string_view text, const Signature& signature, const ImageInput* image) {
  const UnreadItems unread = split_json_items(text);
  Items read;
  read.is_list = unread.is_list;
  for (std::size_t i = 0; i < unread.items.size(); ++i) {
    try {
      read.items.push_back(read_json_item(unread, i, signature, image));
    } catch (const Error& error) {
      throw unread.is_list ? error.within(fmt::format("item {}", i)) : error;
    }
  }
  return read;
}

void append_result(std::string& out, const NamedValues& result, std::span<const DeclaredValue> declared,
                   NonFinite nonfinite) {
  out += '{';
  bool first = true;
  const auto key = [&](std::string_view name) {
    if (!first) out += ", ";
    first = false;
    append_json_string(out, name);
    out += ": ";
  };
  for (const auto& [name, value] : result) {
    key(name);
    if (value.tensor() != nullptr && is_json(name, declared)) {
      append_json_texts(out, *value.tensor());
    } else {
      append_json(out, value, nonfinite);
    }
  }
  const auto with_labels = labelled(result, declared);
  if (!with_labels.empty()) {
    // An output may itself be called "labels".
    key(find(result, "labels") == nullptr ? "labels" : "gpux.labels");
    out += '{';
    first = true;
    for (const auto& [tensor, output] : with_labels) {
      key(output->name);
      append_labels(out, *tensor, *output, nonfinite);
    }
    out += '}';
  }
  out += '}';
}

void append_row(std::string& out, const NamedValues& result, std::span<const DeclaredValue> declared,
                NonFinite nonfinite) {
  const auto append_value = [&](const std::string& name, const Value& value) {
    std::string text;
    const Tensor* tensor = value.tensor();
    if (tensor != nullptr && is_json(name, declared)) {
      append_json_texts(text, *tensor);
    } else {
      append_json(text, value, nonfinite);
    }
    const bool is_row = tensor != nullptr && !tensor->shape().empty() && tensor->shape().front() == 1;
    out += is_row ? std::string_view(text).substr(1, text.size() - 2) : std::string_view(text);
  };
  if (result.size() == 1) {
    append_value(result.front().first, result.front().second);
    return;
  }
  out += '{';
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (i != 0) out += ", ";
    append_json_string(out, result[i].first);
    out += ": ";
    append_value(result[i].first, result[i].second);
  }
  out += '}';
}

std::string results_json(const std::vector<NamedValues>& results, bool is_list, std::span<const DeclaredValue> declared,
                         NonFinite nonfinite) {
  std::string out;
  if (!is_list) {
    append_result(out, results.front(), declared, nonfinite);
    return out;
  }
  out += '[';
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i != 0) out += ",\n ";
    append_result(out, results[i], declared, nonfinite);
  }
  return out + ']';
}

}  // namespace gpux::pipeline
