#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/cancellation.h"
#include "server/protocols/text_requests.h"

/// What clients ask of models that take images, as of text_requests.h.
namespace gpux::server {

/// An image as it came: base64 or a data URL.
struct ImageInput {
  std::string value;
};

/// POST /v1/embeddings: {"input", "model", "encoding_format", "dimensions", "user"}, and "modality".
/// Source: OpenAI's API reference, "Create embeddings". Images as several servers have them: {"image": "…"} and
/// {"text": "…"} (Jina), {"type": "image_url", "image_url": {"url": "…"}} and {"type": "text", "text": "…"} (OpenAI's
/// parts of messages, vLLM), alone or in a list; or "modality": "image" with strings (infinity). Addresses are refused.
struct OpenAiEmbeddings {
  std::vector<std::variant<TextInput, ImageInput>> inputs;  ///< at least one, none empty
  std::string model;                                        ///< empty: not said
  std::size_t dimensions = 0;                               ///< 0: all
  bool base64 = false;                                      ///< vectors as base64 of little-endian float32
};

OpenAiEmbeddings read_openai_embeddings(std::string_view body, const Cancellation& cancellation = {});

/// POST /predict of a model with an image tower: {"inputs", "parameters": {"candidate_labels", "hypothesis_template",
/// "top_k"}}, as huggingface_hub's zero_shot_image_classification() sends it; "inputs" may be a list of images.
struct ImageLabels {
  std::vector<std::string> images;  ///< at least one: base64 or data URLs
  bool is_list = false;             ///< the answer is to be one too
  std::vector<std::string> labels;  ///< at least one; not checked otherwise
  std::string label_template;       ///< empty: the model's
  std::size_t top_k = 0;            ///< 0: all
};

/// Whether the body is an object with "inputs" and "parameters".
bool asks_for_image_labels(std::string_view body);

ImageLabels read_image_labels(std::string_view body, const Cancellation& cancellation = {});

}  // namespace gpux::server
