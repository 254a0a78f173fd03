#include "text/chat_template.h"

#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <gpux_text.h>

#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::text {
namespace {

Error failure_of(char* message, std::uint32_t kind) {
  const std::string text = message;
  gpux_text_free_message(message);
  switch (kind) {
    case GPUX_TEMPLATE_BROKEN:
      return {ErrorCode::invalid_model, fmt::format("the chat template cannot be used: {}", text)};
    case GPUX_TEMPLATE_TOO_MANY_STEPS:
      return {ErrorCode::invalid_model, fmt::format("the chat template does not end: {}", text)};
    case GPUX_TEMPLATE_RAISED:
      return {ErrorCode::invalid_input, fmt::format("the chat template refuses the messages: {}", text)};
    case GPUX_TEMPLATE_TOO_LONG:
      return {ErrorCode::invalid_input, text};
    default:
      return {ErrorCode::invalid_input, fmt::format("the messages do not fit the chat template: {}", text)};
  }
}

}  // namespace

struct ChatTemplate::State {
  GpuxTemplate* chat_template = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() { gpux_template_close(chat_template); }
};

ChatTemplate ChatTemplate::compile(std::string_view source) {
  auto state = std::make_shared<State>();
  std::uint32_t failure = 0;
  if (char* message = gpux_template_compile({source.data(), source.size()}, &state->chat_template, &failure)) {
    throw failure_of(message, failure);
  }
  return ChatTemplate(std::move(state));
}

std::string ChatTemplate::render(std::string_view values, std::chrono::system_clock::time_point now,
                                 std::size_t max_bytes) const {
  require_utf8(values);
  GpuxOwnedText text{};
  std::uint32_t failure = 0;
  const std::int64_t seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  if (char* message = gpux_template_render(state_->chat_template, {values.data(), values.size()}, seconds, max_bytes,
                                           &text, &failure)) {
    throw failure_of(message, failure);
  }
  std::string copy(text.data == nullptr ? "" : text.data, text.size);
  gpux_text_free(&text);
  return copy;
}

}  // namespace gpux::text
