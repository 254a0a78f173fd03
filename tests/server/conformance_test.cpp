// What becomes of the members that published interfaces have: docs/clients.md says it, from the tables of fields.
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "server/protocols/field.h"
#include "server/routes.h"

namespace gpux::server {
namespace {

const std::string page_path = GPUX_SOURCE_DIR "/docs/clients.md";

/// A request of a published interface, with the members of its reference.
struct Interface {
  const char* name;
  const char* path;  ///< of gpux's route
  std::vector<std::string_view> members;
};

const std::vector<Interface>& interfaces() {
  static const std::vector<Interface> all{
      {"OpenAI chat completions",
       "/v1/chat/completions",
       {"messages",
        "model",
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options"}},
      {"vLLM chat completions, beyond OpenAI's",
       "/v1/chat/completions",
       {"top_k",
        "min_p",
        "repetition_penalty",
        "min_tokens",
        "stop_token_ids",
        "ignore_eos",
        "skip_special_tokens",
        "cache_salt",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "structured_outputs",
        "chat_template_kwargs",
        "add_generation_prompt",
        "continue_final_message",
        "echo",
        "add_special_tokens",
        "documents",
        "chat_template",
        "use_beam_search",
        "prompt_logprobs",
        "truncate_prompt_tokens",
        "bad_words",
        "include_stop_str_in_output",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "allowed_token_ids",
        "logits_processors",
        "include_reasoning",
        "length_penalty",
        "spaces_between_special_tokens",
        "priority",
        "request_id",
        "kv_transfer_params"}},
      {"OpenAI responses",
       "/v1/responses",
       {"input",
        "model",
        "background",
        "context_management",
        "conversation",
        "include",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user"}},
      {"Anthropic messages",
       "/v1/messages",
       {"messages",     "model",         "max_tokens",     "cache_control", "container",     "context_management",
        "diagnostics",  "inference_geo", "mcp_servers",    "metadata",      "output_config", "output_format",
        "service_tier", "speed",         "stop_sequences", "stream",        "system",        "temperature",
        "thinking",     "tool_choice",   "tools",          "top_k",         "top_p",         "user_profile_id",
        "workspace_id"}},
      {"OpenAI completions",
       "/v1/completions",
       {"model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n",
        "presence_penalty", "seed", "stop", "stream", "stream_options", "suffix", "temperature", "top_p", "user"}},
      {"OpenAI embeddings", "/v1/embeddings", {"input", "model", "dimensions", "encoding_format", "user"}},
      {"Ollama chat",
       "/api/chat",
       {"model", "messages", "tools", "format", "options", "stream", "think", "keep_alive", "logprobs", "top_logprobs",
        "truncate", "shift"}},
      {"Ollama generate",
       "/api/generate",
       {"model", "prompt", "suffix", "images", "format", "options", "system", "template", "stream", "raw", "keep_alive",
        "context", "think", "logprobs", "top_logprobs", "truncate", "shift"}},
      {"Ollama embeddings", "/api/embed", {"model", "input", "truncate", "options", "keep_alive", "dimensions"}},
      {"Ollama pull and push", "/api/pull", {"model", "insecure", "stream"}},
      {"Ollama create",
       "/api/create",
       {"model", "from", "files", "adapters", "template", "license", "system", "parameters", "messages", "stream",
        "quantize"}},
      {"Ollama copy", "/api/copy", {"source", "destination"}},
      {"Ollama delete", "/api/delete", {"model"}},
      {"text-embeddings-inference /embed",
       "/embed",
       {"inputs", "normalize", "truncate", "truncation_direction", "prompt_name", "dimensions"}},
      {"text-embeddings-inference /rerank",
       "/rerank",
       {"query", "texts", "raw_scores", "return_text", "truncate", "truncation_direction"}},
      {"Cohere rerank v1",
       "/v1/rerank",
       {"model", "query", "documents", "top_n", "rank_fields", "return_documents", "max_chunks_per_doc"}},
      {"Cohere rerank v2", "/v2/rerank", {"model", "query", "documents", "top_n", "max_tokens_per_doc", "priority"}},
      {"Jina rerank",
       "/v1/rerank",
       {"model", "query", "documents", "top_n", "return_documents", "return_embeddings", "truncation"}},
      {"KServe and TensorFlow Serving :predict",
       "/v1/models/{name}:predict",
       {"instances", "inputs", "parameters", "signature_name"}},
      {"llama.cpp and vLLM /detokenize", "/detokenize", {"tokens", "model"}},
  };
  return all;
}

std::map<std::string_view, FieldKind> kinds_of(std::string_view path) {
  std::map<std::string_view, FieldKind> kinds;
  for (const Route& route : all_routes()) {
    if (route.path != path || route.contract.fields == nullptr) continue;
    for (const Field& field : route.contract.fields()) kinds.emplace(field.name, field.kind);
  }
  return kinds;
}

std::string table() {
  std::string text = "| interface | honoured | no effect | refused |\n|---|---|---|---|\n";
  for (const Interface& one : interfaces()) {
    const auto kinds = kinds_of(one.path);
    std::array<std::string, 3> columns;
    for (const std::string_view member : one.members) {
      const auto found = kinds.find(member);
      if (found == kinds.end()) continue;
      std::string& column = columns.at(found->second == FieldKind::ignored   ? 1
                                       : found->second == FieldKind::refused ? 2
                                                                             : 0);
      column += (column.empty() ? "`" : ", `") + std::string(member) + "`";
    }
    text += "| " + std::string(one.name) + " | " + columns[0] + " | " + columns[1] + " | " + columns[2] + " |\n";
  }
  return text;
}

TEST(Conformance, IsTheTableOfThePage) {
  const std::string page = read_file(page_path);
  const std::string begin =
                        "<!-- members: written from the tables of fields, see tests/server/conformance_test.cpp -->\n",
                    end = "<!-- end of members -->\n";
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::size_t start = from + begin.size();
  if (std::getenv("GPUX_WRITE_PAGES") != nullptr) {
    write_file_atomically(page_path, page.substr(0, start) + table() + page.substr(to));
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), table()) << "GPUX_WRITE_PAGES=1 writes it";
}

// A member of a published interface that no table has would be accepted and change nothing, whatever it asks for.
TEST(Conformance, KnowsEachMemberOfThePublishedInterfaces) {
  for (const Interface& one : interfaces()) {
    const auto kinds = kinds_of(one.path);
    EXPECT_FALSE(kinds.empty()) << one.path;
    for (const std::string_view member : one.members) EXPECT_TRUE(kinds.contains(member)) << one.name << ": " << member;
  }
}

}  // namespace
}  // namespace gpux::server
