#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "project/image_input.h"
#include "project/project_file.h"
#include "tensor/json_writer.h"

namespace gpux::pipeline {

/// One item, or a list of them.
struct Items {
  std::vector<NamedValues> items;
  bool is_list = false;  ///< results are to be a list too
};

/// The input of that name. Error invalid_input that names the nearest.
const SignatureEntry& input_entry(const Signature& signature, std::string_view name);

/// The input that a value without a name is for; `what` was given. Error invalid_input where there are several, or
/// none.
const SignatureEntry& only_input(const Signature& signature, const std::string& what);

/// How texts for the image input are read.
enum class Images : std::uint8_t {
  read,     ///< what the model takes
  as_given  ///< strings, to be read later
};

/// JSON taken apart into items that are not read yet: views of the text.
struct UnreadItems {
  std::vector<std::string_view> items;
  bool is_list = false;  ///< results are to be a list too
  bool is_bare = false;  ///< the only item is the value of the model's only input
};

/// Takes apart what read_json_items() reads. Error invalid_input.
UnreadItems split_json_items(std::string_view text);

/// Reads one of them; the error does not name it.
NamedValues read_json_item(const UnreadItems& unread, std::size_t index, const Signature& signature,
                           const ImageInput* image = nullptr, Images images = Images::read);

/// Reads JSON in the types that the signature declares: an object {input: value}, a list of objects, objects one a
/// line, or the bare value of a model with a single input; a text alone is a list of one.
/// Texts for `image`, which may be null, are images. Errors invalid_input with the
/// place.
Items read_json_items(std::string_view text, const Signature& signature, const ImageInput* image = nullptr);

/// Reads one row of a batch: an object {input: value} or the bare value of the model's only input, each without the
/// batch axis, which is added with size 1. {"b64": TEXT} stands for an image, or for a text in UTF-8, in base64. Errors
/// as of read_json_item().
NamedValues read_json_row(std::string_view text, const Signature& signature, const ImageInput* image = nullptr,
                          Images images = Images::read);

/// Reads JSON lines, one object per line; always a list.
Items read_json_lines(std::string_view text, const Signature& signature, const ImageInput* image = nullptr);

/// Reads one value for the input `entry`, as read_json_items() does.
Value read_json_input(std::string_view text, const SignatureEntry& entry, const ImageInput* image = nullptr,
                      Images images = Images::read);

/// One result as a JSON object {output: nested list}, with "labels" where `declared` has some; texts that it says are
/// JSON stand as they are.
void append_result(std::string& out, const NamedValues& result, std::span<const DeclaredValue> declared,
                   NonFinite nonfinite);

/// The result of a run of one row, each output without its first axis where that has the size 1: the bare value of an
/// only output, else an object. Texts that `declared` says are JSON stand as they are.
void append_row(std::string& out, const NamedValues& result, std::span<const DeclaredValue> declared,
                NonFinite nonfinite);

/// Results as JSON: an object, or a list of them.
std::string results_json(const std::vector<NamedValues>& results, bool is_list, std::span<const DeclaredValue> declared,
                         NonFinite nonfinite);

}  // namespace gpux::pipeline
