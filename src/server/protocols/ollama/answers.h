#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation/answer_delta.h"
#include "server/generation/answer_events.h"
#include "server/http/server.h"

/// Answers with text, as Ollama's clients read them. Source: Ollama's API reference.
namespace gpux::server {

enum class OllamaRoute : std::uint8_t { chat, generate };

/// Members that all parts of an answer have.
struct OllamaHead {
  OllamaRoute route = OllamaRoute::chat;
  std::string model;  ///< as the request names it
};

/// The whole answer; `choice` has all its parts.
std::string ollama_answer_json(const OllamaHead& head, const AnswerDelta& choice, const AnswerUsage& usage);

/// The answer to a request that only loads or unloads the model. `reason`: "load", "unload".
std::string ollama_loaded_json(const OllamaHead& head, std::string_view reason);

/// Writes a streamed answer as lines of JSON, the last of which has the counts and durations.
std::unique_ptr<AnswerEvents> ollama_answer_events(OllamaHead head);

/// The answers of /api/embed and /api/embeddings.
http::Response ollama_vectors_json(const std::string& model, const std::vector<std::vector<float>>& vectors,
                                   std::size_t tokens, std::chrono::nanoseconds duration);
http::Response ollama_vector_json(const std::vector<float>& vector);

/// A time as Ollama writes it: "2026-07-15T12:00:00.123456789Z".
std::string ollama_time(std::chrono::system_clock::time_point time);

}  // namespace gpux::server
