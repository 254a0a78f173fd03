#include "library/decoder_import.h"

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "generation/decoder.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "importer/import_encoder.h"
#include "model/open_model.h"
#include "model/package_content.h"

namespace gpux {

namespace fs = std::filesystem;

importer::DecoderImport decoder_import_of(const evaluation::QuantizeFlags& flags, const LoadFlags& load) {
  importer::DecoderImport options;
  if (!flags.given()) return options;
  if (flags.precision != "int4" && flags.precision != "int8") {
    throw Error(ErrorCode::usage,
                fmt::format("--quantize {}: a model that generates text has weights in the precision of its file, int4 "
                            "or int8",
                            flags.precision));
  }
  const std::array<std::pair<const char*, bool>, 4> others{{{"--texts", !flags.texts.empty()},
                                                            {"--samples", !flags.samples.empty()},
                                                            {"--reduce-range", flags.reduce_range},
                                                            {"--min-cosine", !load.min_cosine.empty()}}};
  for (const auto& [flag, is_given] : others) {
    if (is_given) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} is about variants of models, and a model that generates text has none", flag));
    }
  }
  constexpr std::int64_t default_block = 32;
  options.blocks = onnx::BlockFormat{.bits = flags.precision == "int4" ? 4 : 8,
                                     .block_size = flags.block_size == 0 ? default_block : flags.block_size,
                                     .has_zero_points = flags.zero_points};
  return options;
}

ImportedPackage store_decoder_folder(const fs::path& folder, const std::vector<Reference>& names,
                                     const ImportRequest& request, Store& store) {
  LocatedModel located;
  located.onnx_file = folder / (request.file.empty() ? "model.onnx" : request.file);
  located.name = request.package_name.empty() ? names.front().name : request.package_name;
  located.version = names.front().tag == "latest" ? "1.0.0" : names.front().tag;
  (void)generation::read_model_files(located.onnx_file.parent_path());
  PackageContent content = package_content(located, request.load.provider);
  content.origin = request.origin;
  for (const std::string& file : importer::setting_files_in(folder)) content.files.push_back({folder / file, file});
  const LoadSettings settings = resolve_load(request.load, {}, located);
  if (!request.load.precision.empty()) content.precision = settings.options.precision;
  const generation::Decoder decoder(load_located(located, settings));
  generation::TokenCache cache(decoder.signature());
  const std::vector<std::uint32_t> token{0};
  (void)decoder.append(token, cache, {});
  ImportedPackage package{
      .stored = {}, .dimension = 0, .task = "text-generation", .verdict = {}, .variant = {}, .beside = {}};
  package.verdict = decoder.runtime().verdict();
  package.stored = store.add(content, names);
  return package;
}

}  // namespace gpux
