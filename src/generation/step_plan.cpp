#include "generation/step_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace gpux::generation {
namespace {

std::size_t even(std::size_t count) noexcept {
  return count / 2 * 2;
}

}  // namespace

Step plan_step(const PendingWork& work, std::size_t chunk) {
  if (work.prompt_tokens == 0) return {work.decoding == 0 ? Step::Kind::none : Step::Kind::decode, 0};
  const std::size_t tokens = std::min(work.prompt_tokens, chunk);
  const bool is_turn_over = work.prompt_tokens_in_turn + tokens > chunk;
  if (work.decoding != 0 && is_turn_over) return {Step::Kind::decode, 0};
  return {Step::Kind::prompt, tokens};
}

std::optional<Admission> plan_admission(std::span<const Claim> claims) {
  std::map<std::string_view, std::size_t> running;
  for (const Claim& claim : claims) running[claim.client] += claim.running;
  const auto slots = [&](const Claim& claim) { return std::pair(running.at(claim.client), claim.running); };

  const Claim* next = nullptr;
  for (const Claim& claim : claims) {
    if (claim.waiting != 0 && (next == nullptr || slots(claim) < slots(*next))) next = &claim;
  }
  if (next == nullptr) return std::nullopt;
  // The richest request of the richest client, else of the same one.
  const Claim* richest = nullptr;
  for (const Claim& claim : claims) {
    const bool is_same = claim.client == next->client;
    const std::size_t more = is_same ? claim.running : running.at(claim.client);
    const std::size_t has = is_same ? next->running : running.at(next->client);
    if (claim.running == 0 || more < has + 2) continue;
    const auto rank = [&](const Claim& one) { return std::pair(one.client != next->client, slots(one)); };
    // Of several the youngest, so that the oldest text comes to its end.
    if (richest == nullptr || rank(claim) >= rank(*richest)) richest = &claim;
  }
  Admission admission{.next = static_cast<std::size_t>(next - claims.data()), .yielding = {}};
  if (richest != nullptr) admission.yielding = static_cast<std::size_t>(richest - claims.data());
  return admission;
}

std::size_t plan_preemption(std::span<const RunningText> texts) {
  std::map<std::string_view, std::size_t> of_client;
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> of_request;
  for (const RunningText& text : texts) {
    ++of_client[text.client];
    ++of_request[{text.client, text.request}];
  }
  const auto rank = [&](std::size_t index) {
    const RunningText& text = texts[index];
    return std::tuple(of_client.at(text.client), of_request.at({text.client, text.request}), index);
  };
  std::size_t most = 0;
  for (std::size_t i = 1; i < texts.size(); ++i) {
    if (rank(i) > rank(most)) most = i;
  }
  return most;
}

std::size_t next_prompt(std::span<const PendingPrompt> prompts) {
  using Request = std::pair<std::string_view, std::uint64_t>;
  std::map<std::string_view, std::uint64_t> of_client;
  std::map<Request, std::uint64_t> of_request;
  for (const PendingPrompt& prompt : prompts) {
    std::uint64_t& client = of_client[prompt.client];
    std::uint64_t& request = of_request[{prompt.client, prompt.request}];
    client = std::max(client, prompt.last_turn);
    request = std::max(request, prompt.last_turn);
  }
  const auto rank = [&](const PendingPrompt& prompt) {
    return std::tuple(of_client.at(prompt.client), of_request.at({prompt.client, prompt.request}), prompt.last_turn);
  };
  const auto least =
      std::ranges::min_element(prompts, [&](const auto& one, const auto& other) { return rank(one) < rank(other); });
  return static_cast<std::size_t>(least - prompts.begin());
}

std::size_t prompt_part(std::size_t prompt_tokens) noexcept {
  return even(prompt_tokens);
}

std::size_t reusable_tokens(std::size_t common, std::size_t prompt_tokens) noexcept {
  return prompt_tokens == 0 ? 0 : std::min(even(common), even(prompt_tokens - 1));
}

}  // namespace gpux::generation
