#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "cli/program.h"
#include "cli/serving.h"
#include "text/token_words.h"

namespace gpux::test {

/// Each message as <role>content, tools before them, and thinking where it is asked for. A comment has the marker of
/// calls that Qwen has.
inline constexpr std::string_view plain_template =
    "{#- <tool_call> </think> -#}"
    "{%- if tools -%}<tools>{% for tool in tools %}{{ tool.function.name }} {% endfor %}{%- endif -%}"
    "{%- for message in messages -%}<{{ message.role }}>{{ message.content }}"
    "{%- for call in message.tool_calls or [] -%}<call>{{ call.function.name }}{{ call.function.arguments | tojson }}"
    "{%- endfor -%}{%- endfor -%}"
    "{%- if enable_thinking is defined -%}<thinks {{ enable_thinking }}>{%- endif -%}"
    "{%- if add_generation_prompt -%}<assistant>{%- endif -%}";

/// The token of a printable character of ASCII, and of the text that ends reasoning.
inline std::string token_of(char character) {
  return std::to_string(3 + character - ' ');
}

inline constexpr const char* end_of_thinking = "102";

/// Stores a decoder whose tokens are characters, with random weights, under this name. Without a template it takes no
/// messages. `more_tokens` follow the others.
inline void store_chat_model(const Program& gpux, const std::string& name, std::string_view chat_template,
                             const std::string& generation = R"({"eos_token_id": 2, "do_sample": true})",
                             const std::vector<std::string>& more_tokens = {}) {
  namespace fs = std::filesystem;
  const fs::path source = fs::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
  const fs::path folder = gpux.folder().path() / name;
  fs::create_directory(folder);
  for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(source / file, folder / file);
  gpux.folder().write(name + "/generation_config.json", generation);
  std::vector<std::string> words{"\": ", "12", "true", "\n", "</think>"};
  words.insert(words.end(), more_tokens.begin(), more_tokens.end());
  gpux.folder().write(name + "/tokenizer.json", made_tokenizer("metaspace", words));
  if (!chat_template.empty()) gpux.folder().write(name + "/chat_template.jinja", std::string(chat_template));
  const Outcome imported = gpux.run({"import", folder.string(), "-t", name});
  ASSERT_EQ(imported.code, 0) << imported.err;
}

/// The data of server-sent events but the last one, which is [DONE].
inline std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  std::istringstream lines(body);
  bool is_done = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with(':')) continue;
    EXPECT_FALSE(is_done) << line;
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    is_done = line == "data: [DONE]";
    if (!is_done) events.push_back(Json::parse(line.substr(6)));
  }
  EXPECT_TRUE(is_done) << body;
  return events;
}

/// The value of a metric of the server's only generator.
inline double metric(const Serving& server, const std::string& name) {
  const std::string page = server.ask(http::get("/metrics")).body;
  const std::size_t at = page.find("\n" + name + "{");
  if (at == std::string::npos) return -1;
  return std::stod(page.substr(page.find("} ", at) + 2));
}

}  // namespace gpux::test
