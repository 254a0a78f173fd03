#include "generation/decoder.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "generation/make_caches.h"
#include "gpux/error.h"
#include "provider/library_version.h"
#include "provider/table.h"

namespace gpux::generation {
namespace {

bool computes_pairs(const Runtime& runtime) {
  constexpr std::string_view product = "MatMulNBits";
  if (!runtime.info().operators.contains(fmt::format("com.microsoft::{}", product))) return false;
  return std::ranges::any_of(runtime.placement(), [&](const Runtime::PlacedNode& node) {
    return node.operator_type == product && node.provider == "cpu";
  });
}

bool may_run_ahead(const Runtime& runtime, const DecoderSignature& signature) {
  const std::vector<std::string>& active = runtime.verdict().active;
  const provider::ProviderRow* const row = active.size() == 1 ? provider::find_row(active.front()) : nullptr;
  return row != nullptr && row->gives_all_logits && signature.writes_in_place;
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

std::string Decoder::computed_by() const {
  const CacheLayout& cache = signature_.cache;
  std::string text =
      fmt::format("gpux {} {}\n{}", version(), provider::library_content(own_library_path()), session_->computed_by());
  for (const auto& [name, value] : session_->identity()) text += fmt::format("{} {}\n", name, value);
  text += fmt::format("threads {}\n", session_->threads());
  return text + fmt::format("keys and values {} {} {} {}\n", cache.arrays, cache.heads, cache.head_size,
                            to_string(cache.type));
}

void Decoder::compare_rows(std::size_t vocabulary, std::size_t max_tokens) {
  caches_->compare_rows(vocabulary, max_tokens);
  runs_ahead_ = max_tokens > 1 && may_run_ahead(runtime_, signature_) && finds_equal_logits(vocabulary);
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

// The library beside gpux may be of another build.
bool Decoder::finds_equal_logits(std::size_t vocabulary) {
  const std::array<std::uint32_t, 2> tokens{static_cast<std::uint32_t>(vocabulary / 2),
                                            static_cast<std::uint32_t>(vocabulary / 3)};
  try {
    const std::array<Row, 2> ahead{Row{0, tokens}, Row{0, tokens}};
    const Tensor together = run(1, ahead, LogitRows::all);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Row row{i, std::span(tokens).subspan(i, 1)};
      const Tensor alone = run(0, {&row, 1});
      for (std::size_t k = 0; k < ahead.size(); ++k) {
        const auto bytes = together.bytes().subspan((k * tokens.size() + i) * alone.byte_size(), alone.byte_size());
        if (!std::ranges::equal(bytes, alone.bytes())) return false;
      }
    }
    return true;
  } catch (const Error& error) {
    log::info("tokens are not guessed: {}", error.message());
    return false;
  }
}

void Decoder::stop() {
  session_->stop();
}

}  // namespace gpux::generation
