#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generation/chat_plan.h"
#include "gpux/generator.h"
#include "server/protocols/field.h"
#include "server/protocols/ollama/keep_alive.h"
#include "server/protocols/request_json.h"
#include "server/protocols/text_inputs.h"

/// Requests of Ollama's clients. Source: Ollama's API reference. Errors invalid_input as of tei/requests.h; members
/// and options that are not known are refused by name, with those that are accepted.
namespace gpux::server {

/// Settings common to requests to /api/chat and /api/generate.
struct OllamaSettings {
  std::string model;               ///< empty: not given
  std::size_t context_length = 0;  ///< "num_ctx": of a prompt and its answer; 0: not given
  bool is_streamed = true;
  std::optional<KeepAlive> keep_alive;
  std::optional<ReasoningEffort> reasoning;  ///< "think"; empty: as the model's template has it
};

/// Request to POST /api/chat.
struct OllamaChat {
  OllamaSettings general;
  generation::ChatRequest chat;  ///< without messages: the model is loaded, and nothing is generated
};

/// Request to POST /api/generate.
struct OllamaGenerate {
  OllamaSettings general;
  GenerationSettings settings;
  std::string prompt;  ///< empty: the model is loaded, and nothing is generated
  std::string system;
  std::string suffix;   ///< what follows the text, for models that fill in the middle
  bool is_raw = false;  ///< without the chat template
  TokenIds context;     ///< what an earlier answer gave as "context": the prompt continues it; may be empty
};

/// POST /api/embed, and /api/embeddings with one text.
struct OllamaEmbed {
  std::string model;  ///< empty: not given
  std::vector<std::string> texts;
  std::size_t dimensions = 0;
  std::size_t context_length = 0;  ///< tokens of a text, with the special ones; 0: as many as the model takes
  bool truncate = true;
  std::optional<KeepAlive> keep_alive;
};

OllamaChat read_ollama_chat(std::string_view body, const BodyReading& reading = {});
OllamaGenerate read_ollama_generate(std::string_view body, const BodyReading& reading = {});
OllamaEmbed read_ollama_embed(std::string_view body, const BodyReading& reading = {});
OllamaEmbed read_ollama_embeddings(std::string_view body, const BodyReading& reading = {});

/// POST /api/show: {"model"} or {"name"}.
std::string read_ollama_show(std::string_view body, const BodyReading& reading = {});

namespace ollama {

/// Fields that each reader accepts.
std::span<const Field> chat_fields();
std::span<const Field> generate_fields();
std::span<const Field> embed_fields();
std::span<const Field> older_embed_fields();
std::span<const Field> show_fields();

}  // namespace ollama

}  // namespace gpux::server
