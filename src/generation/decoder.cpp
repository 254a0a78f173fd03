#include "generation/decoder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "generation/make_caches.h"

namespace gpux::generation {
namespace {

bool computes_pairs(const Runtime& runtime) {
  constexpr std::string_view product = "MatMulNBits";
  if (!runtime.info().operators.contains(fmt::format("com.microsoft::{}", product))) return false;
  return std::ranges::any_of(runtime.placement(), [&](const Runtime::PlacedNode& node) {
    return node.operator_type == product && node.provider == "cpu";
  });
}

}  // namespace

Verdict verdict_of_first_token(Runtime runtime) {
  const std::vector<std::uint32_t> token{0};
  const Decoder::Row row{0, token};
  Decoder decoder(std::move(runtime), 1);
  decoder.reserve(token.size(), {0});
  (void)decoder.run(0, {&row, 1});
  return decoder.verdict();
}

Decoder::Decoder(Runtime runtime, std::size_t slots)
    : runtime_(std::move(runtime)),
      signature_(require_decoder(runtime_.info())),
      needs_pairs_(computes_pairs(runtime_)),
      session_(std::make_unique<runtime::SessionReplica>(runtime_)),
      caches_(make_caches(runtime_, *session_, signature_, slots)) {}

Decoder::~Decoder() = default;

Verdict Decoder::verdict() const {
  Verdict verdict = runtime_.verdict();
  if (std::optional<std::string> note = caches_->note()) verdict.notes.emplace_back(*std::move(note));
  return verdict;
}

void Decoder::compare_rows(std::size_t vocabulary, std::size_t max_tokens) {
  caches_->compare_rows(vocabulary, max_tokens);
  if (!needs_pairs_ || !can_batch()) return;
  needs_pairs_ = false;
  // Two tokens: the row of one that a model never learnt may be zeros, which any kernel computes alike.
  for (const std::size_t part : std::array<std::size_t, 2>{2, 3}) {
    const auto token = static_cast<std::uint32_t>(vocabulary / part);
    std::array<Row, 3> rows;
    rows.fill({0, {&token, 1}});
    const Tensor alone = run(0, std::span(rows).first(1)), together = run(0, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = together.bytes().subspan(i * alone.byte_size(), alone.byte_size());
      needs_pairs_ = needs_pairs_ || !std::ranges::equal(row, alone.bytes());
    }
  }
}

void Decoder::stop() {
  session_->stop();
}

}  // namespace gpux::generation
