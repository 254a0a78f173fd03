#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/protocols/encoded_image.h"
#include "server/protocols/field.h"
#include "server/protocols/request_json.h"
#include "server/protocols/text_inputs.h"

/// Requests of OpenAI's clients for embeddings of texts and images.
namespace gpux::server {

/// POST /v1/embeddings: {"input", "model", "encoding_format", "dimensions", "user"}, and "modality".
/// Source: OpenAI's API reference, "Create embeddings". Images as several servers have them: {"image": "…"} and
/// {"text": "…"} (Jina), {"type": "image_url", "image_url": {"url": "…"}} and {"type": "text", "text": "…"} (OpenAI's
/// parts of messages, vLLM), alone or in a list; or "modality": "image" with strings (infinity). Addresses are refused.
struct OpenAiEmbeddings {
  std::vector<std::variant<TextInput, EncodedImage>> inputs;  ///< at least one, none empty
  std::string model;                                          ///< empty: not said
  std::size_t dimensions = 0;                                 ///< 0: all
  bool base64 = false;                                        ///< vectors as base64 of little-endian float32
};

[[nodiscard]] std::span<const Field> embedding_fields();

/// Reads the body of POST /v1/embeddings. Errors as of tei/requests.h.
OpenAiEmbeddings read_openai_embeddings(std::string_view body, const BodyReading& reading = {});

}  // namespace gpux::server
