#include "library/decoder_import.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/format_message.h"
#include "checkpoint/exported_files.h"
#include "checkpoint/setting_files.h"
#include "embedding/open_tokenizer.h"
#include "embedding/recorded_texts.h"
#include "evaluation/own_provider_comparison.h"
#include "generation/decoder.h"
#include "generation/genai_config.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "importer/import_model.h"
#include "model/open_model.h"
#include "model/package_content.h"
#include "provider/own_provider.h"

namespace gpux {

namespace fs = std::filesystem;

importer::DecoderImport decoder_import_of(const evaluation::QuantizeFlags& flags, const LoadRequest& load) {
  importer::DecoderImport options;
  if (!flags.given()) return options;
  if (flags.precision != "int4" && flags.precision != "int8") {
    throw Error(
        ErrorCode::usage,
        format_message("{} {}: a model that generates text has weights in the precision of its file, int4 or int8",
                       setting_named("quantize"), flags.precision));
  }
  const std::array<std::pair<const char*, bool>, 3> others{{{"samples", !flags.samples.empty()},
                                                            {"reduce_range", flags.reduce_range},
                                                            {"min_cosine", load.min_cosine.has_value()}}};
  for (const auto& [setting, is_given] : others) {
    if (is_given) {
      throw Error(ErrorCode::usage,
                  format_message("{} is about variants of models, and a model that generates text has none",
                                 setting_named(setting)));
    }
  }
  constexpr std::int64_t default_block = 32;
  options.blocks = onnx::BlockFormat{.bits = flags.precision == "int4" ? 4 : 8,
                                     .block_size = flags.block_size == 0 ? default_block : flags.block_size,
                                     .has_zero_points = flags.zero_points};
  return options;
}

namespace {

constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 24;

generation::TextPredictions predictions_of(const fs::path& folder, const std::vector<std::vector<std::uint32_t>>& parts,
                                           const LoadRequest& load) {
  LocatedModel located;
  located.onnx_file = folder / "model.onnx";
  LoadSettings settings = resolve_load(load, located);
  settings.options.cache_precision = CachePrecision::automatic;
  generation::Decoder decoder(load_located(located, std::move(settings)), parts.size() + 1);
  return generation::predict(decoder, parts);
}

// The one that is named, by the user or by genai_config.json, or the usual ones.
fs::path decoder_file_in(const fs::path& folder, const std::string& named) {
  if (!named.empty()) return folder / named;
  std::vector<std::string> names{"model.onnx", "onnx/model.onnx"};
  if (const auto genai = generation::read_genai_config(folder); genai && !genai->file.empty()) names = {genai->file};
  std::error_code unreadable;
  for (const std::string& name : names) {
    if (fs::is_regular_file(folder / name, unreadable)) return folder / name;
  }
  const std::vector<std::string> found = exported_files_in(folder);
  throw Error(ErrorCode::not_found,
              format_message("'{}' has no {}; found: {}; {} names the ONNX file of the decoder", file_at(folder),
                             names.front(), found.empty() ? "no ONNX file" : fmt::format("{}", fmt::join(found, ", ")),
                             setting_named("file")));
}

}  // namespace

generation::QuantizationAgreement check_quantized(const fs::path& original, const fs::path& quantized,
                                                  const ImportRequest& request, const fs::path& scratch) {
  const std::string& file = request.quantize.texts;
  const std::string text = file.empty() ? embedding::joined_recorded_texts() : read_file(file, max_text_bytes);
  const text::Tokenizer tokenizer = embedding::open_tokenizer(quantized / "tokenizer.json");
  const std::vector<std::vector<std::uint32_t>> parts = generation::measured_parts(tokenizer, text);
  const fs::path unquantized = scratch / "unquantized";
  importer::import_model(original, unquantized, {.context_length = request.context_length});
  const generation::TextPredictions expected = predictions_of(unquantized, parts, request.load);
  std::error_code left_for_later;
  fs::remove_all(unquantized, left_for_later);
  generation::QuantizationAgreement agreement =
      generation::compare(expected, predictions_of(quantized, parts, request.load));
  agreement.precision = request.quantize.precision;
  agreement.what = file.empty() ? fmt::format("{} recorded texts", embedding::recorded_texts().size()) : file;
  const double given = request.quantize.max_perplexity_ratio;
  generation::require_agreement(agreement, given == 0 ? generation::max_perplexity_ratio : given);
  return agreement;
}

ImportedPackage store_decoder_folder(const fs::path& folder, const std::vector<Reference>& names,
                                     const ImportRequest& request, Store& store) {
  LocatedModel located;
  located.onnx_file = decoder_file_in(folder, request.file);
  located.name = request.package_name.empty() ? names.front().name : request.package_name;
  located.version = names.front().tag == "latest" ? "1.0.0" : names.front().tag;
  located.pulled_from = request.origin.source;
  (void)generation::read_model_files(located.onnx_file.parent_path());
  PackageContent content = package_content(located, request.load.provider);
  content.origin = request.origin;
  for (const std::string& file : checkpoint::setting_files_in(folder)) content.files.push_back({folder / file, file});
  LoadSettings settings = resolve_check(request.load, located);
  settings.options.cache_precision = CachePrecision::automatic;
  if (request.load.precision) content.precision = settings.options.precision;
  ImportedPackage package{
      .stored = {}, .dimension = 0, .task = "text-generation", .verdict = {}, .variant = {}, .beside = {}};
  package.verdict = generation::verdict_of_first_token(load_located(located, settings));
  content.compared_provider =
      evaluation::compare_own_provider(located.onnx_file, ModelInspector::inspect(located.onnx_file), settings.options);
  provider::note_packaged(content.compared_provider, package.verdict);
  package.stored = store.add(content, names);
  return package;
}

}  // namespace gpux
