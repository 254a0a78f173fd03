// Chat templates of models, and the conversations that clients send: the template before the first byte 0, the values
// behind it.
#include "text/chat_template.h"

#include <chrono>
#include <string>

#include "fuzzer.h"
#include "gpux/error.h"

namespace {

constexpr std::string_view usual_values =
    R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "é"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "a", "function":
        {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}, {"role": "tool", "content": "{}", "name": "f"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "enable_thinking": false})";

void require_ordinary(const gpux::Error& error) {
  const bool is_expected =
      error.code() == gpux::ErrorCode::invalid_input || error.code() == gpux::ErrorCode::invalid_model;
  gpux::fuzz::require(is_expected, "refused as something else: " + error.message());
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::size_t end = input.find('\0');
  const std::string_view values = end == std::string_view::npos ? usual_values : input.substr(end + 1);
  constexpr std::size_t max_bytes = 1 << 20;
  const std::chrono::system_clock::time_point now{std::chrono::seconds(1'700'000'000)};
  try {
    const text::ChatTemplate made = text::ChatTemplate::compile(input.substr(0, end));
    const std::string first = made.render(values, now, max_bytes);
    require(first.size() <= max_bytes, "more text than is accepted");
    require(
        must_succeed("another answer the second time", [&] { return made.render(values, now, max_bytes); }) == first,
        "another text the second time");
  } catch (const Error& error) {
    require_ordinary(error);
  }
}
