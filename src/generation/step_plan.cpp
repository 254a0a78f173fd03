#include "generation/step_plan.h"

#include <algorithm>

namespace gpux::generation {
namespace {

std::size_t even(std::size_t count) noexcept {
  return count / 2 * 2;
}

}  // namespace

Step plan_step(const PendingWork& work, std::size_t chunk) {
  if (work.prompts.empty()) return {work.decoding == 0 ? Step::Kind::none : Step::Kind::decode, 0};
  const std::size_t tokens = std::min(work.prompts.front(), chunk);
  const bool is_turn_over = work.prompt_tokens_in_turn + tokens > chunk;
  if (work.decoding != 0 && is_turn_over) return {Step::Kind::decode, 0};
  return {Step::Kind::prompt, tokens};
}

std::size_t prompt_part(std::size_t prompt_tokens) noexcept {
  return even(prompt_tokens);
}

std::size_t reusable_tokens(std::size_t common, std::size_t prompt_tokens) noexcept {
  return prompt_tokens == 0 ? 0 : std::min(even(common), even(prompt_tokens - 1));
}

}  // namespace gpux::generation
