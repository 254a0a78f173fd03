#include "importer/import_model.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/scratch_folder.h"
#include "checkpoint/decoder_folder.h"
#include "gpux/error.h"
#include "importer/gguf/gguf_file.h"
#include "importer/gguf/import_gguf.h"
#include "importer/import_decoder.h"
#include "importer/import_encoder.h"
#include "importer/import_image_model.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

fs::path require_new(fs::path target) {
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  std::error_code error;
  if (fs::exists(target, error) && !fs::is_empty(target, error)) {
    throw Error(ErrorCode::usage, format_message("'{}' already exists; give a new folder", file_at(target)));
  }
  return target;
}

/// A folder beside the target that takes its place when it is whole, and is gone otherwise.
class NewFolder {
 public:
  explicit NewFolder(fs::path target)
      : target_(require_new(std::move(target))), scratch_(target_), made_(scratch_.path() / "made") {
    std::error_code error;
    if (!fs::create_directory(made_, error)) throw_file_error("make", made_, error.value());
  }

  [[nodiscard]] const fs::path& path() const noexcept { return made_; }

  void keep() const {
    // An empty folder in its place is replaced.
    if (const int error = scratch_.move_out(made_, target_); error != 0) throw_file_error("make", target_, error);
    if (const int error = sync_folder(target_.parent_path()); error != 0) throw_file_error("make", target_, error);
  }

 private:
  fs::path target_;
  ScratchFolder scratch_;
  fs::path made_;
};

struct Format {
  bool (*is_of)(const fs::path& source);
  /// As require_importable(); null: for files, which import_gguf.h looks at.
  std::uint64_t (*require)(const fs::path& folder);
  ImportedModel (*import)(const fs::path& source, const fs::path& target, const DecoderImport& decoder);
  bool has_context = false;  ///< DecoderImport::context_length is for it
  bool has_blocks = false;   ///< DecoderImport::blocks is for it
};

// The first that a folder or file is of.
constexpr std::array formats{
    Format{.is_of = gguf::is_gguf_file,
           .require = nullptr,
           .import = [](const fs::path& source, const fs::path& target,
                        const DecoderImport& decoder) { return import_gguf(source, target, decoder.context_length); },
           .has_context = true},
    Format{.is_of = is_image_model,
           .require = require_importable_image_model,
           .import = [](const fs::path& source, const fs::path& target,
                        const DecoderImport&) { return import_image_model(source, target); }},
    Format{.is_of = checkpoint::is_decoder_folder,
           .require = require_importable_decoder,
           .import = import_decoder,
           .has_context = true,
           .has_blocks = true},
    Format{.is_of = [](const fs::path&) { return true; },
           .require = require_importable_encoder,
           .import = [](const fs::path& source, const fs::path& target,
                        const DecoderImport&) { return import_encoder(source, target); }},
};

const Format& format_of(const fs::path& source) {
  return *std::ranges::find_if(formats, [&](const Format& format) { return format.is_of(source); });
}

void require_settings_of(const Format& format, const DecoderImport& decoder, const fs::path& source) {
  if (decoder.blocks && format.has_context && !format.has_blocks) {
    throw Error(ErrorCode::usage,
                format_message("'{}': a GGUF file keeps the precision of its weights", file_at(source)));
  }
  if ((decoder.blocks && !format.has_blocks) || (decoder.context_length != 0 && !format.has_context)) {
    throw Error(ErrorCode::usage,
                format_message("'{}': weights in blocks and a context length are for models that generate text",
                               file_at(source)));
  }
}

}  // namespace

ImportedModel import_model(const fs::path& source, const fs::path& target, const DecoderImport& decoder) {
  const Format& format = format_of(source);
  require_settings_of(format, decoder, source);
  const NewFolder made(target);
  ImportedModel imported = format.import(source, made.path(), decoder);
  made.keep();
  return imported;
}

std::uint64_t require_importable(const fs::path& folder) {
  const Format& format = format_of(folder);
  return format.require == nullptr ? 0 : format.require(folder);
}

}  // namespace gpux::importer
