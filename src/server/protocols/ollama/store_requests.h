#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/protocols/field.h"
#include "server/protocols/request_json.h"
#include "server/store_changes/model_creation.h"

/// Requests of Ollama's clients that change the stored models. Source: Ollama's API reference (docs/api.md, "Create a
/// Model" to "Push a Model"). Errors as of requests.h.
namespace gpux::server {

/// POST /api/pull and /api/push.
struct OllamaTransfer {
  std::string model;
  bool is_streamed = true;
};

/// POST /api/copy.
struct OllamaCopy {
  std::string source, destination;
};

/// POST /api/create.
struct OllamaCreation {
  ModelCreation creation;
  bool is_streamed = true;
};

OllamaTransfer read_ollama_transfer(std::string_view body, const BodyReading& reading = {});
OllamaCopy read_ollama_copy(std::string_view body, const BodyReading& reading = {});
OllamaCreation read_ollama_create(std::string_view body, const BodyReading& reading = {});

/// DELETE /api/delete: {"model"} or {"name"}.
std::string read_ollama_delete(std::string_view body, const BodyReading& reading = {});

/// The 64 digits of "sha256:…". Error invalid_input.
std::string read_ollama_digest(const std::string& text, std::string_view place);

namespace ollama {

/// Fields that each reader accepts.
std::span<const Field> transfer_fields();
std::span<const Field> copy_fields();
std::span<const Field> create_fields();
std::span<const Field> delete_fields();

}  // namespace ollama

}  // namespace gpux::server
