#include "model/cache_agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/changing_files.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/home.h"
#include "base/log.h"
#include "base/sha256.h"
#include "embedding/recorded_texts.h"
#include "generation/decoder.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using generation::QuantizationAgreement;
using nlohmann::json;

// Changed with what is measured, so that results of an earlier gpux are not taken for it.
constexpr std::string_view file_kind = "int8-caches-1";

std::string recorded() {
  return fmt::format("{} recorded texts", embedding::recorded_texts().size());
}

// JSON has no infinity.
json number_of(double perplexity) {
  return std::isfinite(perplexity) ? json(perplexity) : json();
}

// None is less than 1.
double perplexity_in(const json& kept) {
  return kept.is_null() ? std::numeric_limits<double>::infinity() : std::max(kept.get<double>(), 1.0);
}

}  // namespace

void require_cache_agreement(const QuantizationAgreement& agreement) {
  const bool are_numbers = std::isfinite(agreement.perplexity) && std::isfinite(agreement.quantized_perplexity);
  if (are_numbers && agreement.ratio() <= max_cache_perplexity_ratio) return;
  throw Error(ErrorCode::usage,
              format_message("keys and values in int8 are refused for this model: the perplexity of {} is {:.2f}, and "
                             "{:.2f} with those of the model's file; accepted: up to {} times that; {} float16 rounds "
                             "less",
                             agreement.what, agreement.quantized_perplexity, agreement.perplexity,
                             max_cache_perplexity_ratio, setting_named("cache_precision")));
}

QuantizationAgreement measure_cache_agreement(Runtime in_int8, const std::function<Runtime()>& load_as_written,
                                              const text::Tokenizer& tokenizer, std::size_t context_length) {
  auto parts = generation::measured_parts(tokenizer, embedding::joined_recorded_texts());
  for (auto& part : parts) part.resize(std::min(part.size(), context_length));
  const auto predictions = [&](Runtime runtime) {
    generation::Decoder decoder(std::move(runtime), parts.size() + 1);
    return generation::predict(decoder, parts);
  };
  const generation::TextPredictions coded = predictions(std::move(in_int8));
  QuantizationAgreement agreement = generation::compare(predictions(load_as_written()), coded);
  agreement.precision = "int8";
  agreement.what = recorded();
  return agreement;
}

fs::path kept_agreement_file(const std::vector<fs::path>& files, const std::string& digest,
                             const std::string& computed_by) {
  std::string text = fmt::format("{}\n{}\n{}\n{}", file_kind, version(), computed_by, digest);
  for (const fs::path& file : digest.empty() ? files : std::vector<fs::path>()) {
    const FileStamp stamp = stamp_of(file);
    text += fmt::format("\n{} {} {} {} {} {}", fs::absolute(file).string(), stamp.device, stamp.inode, stamp.size,
                        stamp.modified_ns, stamp.changed_ns);
  }
  return home_folder() / "cache-agreement" / (sha256_of(text) + ".json");
}

std::optional<QuantizationAgreement> read_kept_agreement(const fs::path& file) {
  try {
    const json kept = json::parse(read_file(file, 1 << 16));
    if (kept.at("kind") != file_kind) return std::nullopt;
    return QuantizationAgreement{.precision = "int8",
                                 .what = recorded(),
                                 .positions = kept.at("positions").get<std::size_t>(),
                                 .perplexity = perplexity_in(kept.at("original_perplexity")),
                                 .quantized_perplexity = perplexity_in(kept.at("perplexity")),
                                 .same_token = kept.at("same_token").get<double>()};
  } catch (const Error&) {
    return std::nullopt;  // there is none
  } catch (const json::exception& exception) {
    log::debug("'{}' does not hold an agreement: {}", file.string(), exception.what());
    return std::nullopt;
  }
}

void keep_agreement(const fs::path& file, const QuantizationAgreement& agreement) {
  const json kept{{"kind", file_kind},
                  {"positions", agreement.positions},
                  {"original_perplexity", number_of(agreement.perplexity)},
                  {"perplexity", number_of(agreement.quantized_perplexity)},
                  {"same_token", agreement.same_token}};
  try {
    write_file_atomically(file, kept.dump());
  } catch (const Error& error) {
    log::info("the agreement of keys and values in int8 is not kept: {}", error.message());
  }
}

}  // namespace gpux
