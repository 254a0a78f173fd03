#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "library/other_folder.h"
#include "library/pull_source.h"
#include "model/load_settings.h"
#include "model/package_content.h"
#include "onnx/model_file.h"
#include "registry/http/url.h"
#include "store/download_folder.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

std::string sha256_for(const AddressReference& reference, const PullOptions& options) {
  const std::string given = lower(options.sha256);
  if (!given.empty() && !is_sha256(given)) {
    throw Error(ErrorCode::usage, format_message("{} {} is not 64 hexadecimal digits", setting_named("sha256"),
                                                 in_quotes(options.sha256)));
  }
  if (!given.empty() && !reference.sha256.empty() && given != reference.sha256) {
    throw Error(ErrorCode::usage,
                format_message("{} and the address give different digests: use one of them", setting_named("sha256")));
  }
  return given.empty() ? reference.sha256 : given;
}

Error address_error(const std::string& shown, int status) {
  const std::string what = fmt::format("{} cannot be downloaded: the server answers {}", in_quotes(shown), status);
  if (status == 401 || status == 403) return {ErrorCode::permission, what};
  if (status == 404 || status == 410) return {ErrorCode::not_found, what};
  return {ErrorCode::network, what};
}

// An external file could be anywhere on the disk by its name, and the address tells of the ONNX file alone.
void refuse_external_data(const fs::path& file, const std::string& shown) {
  const ModelInfo info = onnx::inspect(file);
  if (info.external_files.empty()) return;
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} keeps weights in another file, {}, which is not downloaded; models of several files come "
                          "from the hub (hf.co/ORG/NAME)",
                          in_quotes(shown), in_quotes(info.external_files.front().location)));
}

// The file is one of this process: the user knows its address.
StoredModel store_file(LocatedModel located, const Reference& name, const PackageOrigin& origin,
                       const PullContext& context) {
  try {
    refuse_external_data(located.onnx_file, origin.source);
    const std::string stem = registry::as_name_part(fs::path(origin.file).stem().string());
    located.name = stem.empty() ? "model" : stem;
    located.version = "1.0.0";
    located.pulled_from = origin.source;
    PackageContent content = package_content(located, std::nullopt);
    content.origin = origin;
    say_where_checked(context);
    const Runtime runtime(located.onnx_file, resolve_check({}, located).options);
    return context.store.add(content, std::span(&name, 1));
  } catch (const Error& error) {
    throw in_other_folder(error, located.onnx_file, origin.source);
  }
}

void refuse_choices_of_files(const PullOptions& options) {
  if (options.file.empty() && options.precision.empty() && options.reranker.empty()) return;
  throw Error(ErrorCode::usage,
              format_message("{}, {} and {} are for the files of a repository; an address names one",
                             setting_named("file"), setting_named("precision"), setting_named("reranker")));
}

// Empty where the file has that SHA-256, or none is known.
std::string problem_of(const fs::path& file, const std::string& sha256) {
  const std::string digest = sha256.empty() ? sha256 : sha256_of_file(file);
  return digest == sha256 ? std::string() : fmt::format("its SHA-256 is {} instead of {}", digest, sha256);
}

}  // namespace

PulledModel pull_from_address(const AddressReference& reference, const Reference& name, const PullContext& context) {
  refuse_choices_of_files(context.options);
  const std::string sha256 = sha256_for(reference, context.options), origin = origin_of(reference);
  registry::Response head = context.client.send({.method = registry::Method::head, .url = reference.url});
  // Some servers know no HEAD, and an address that is signed is signed for GET: GET tells whether the file is there,
  // and its size is known when it is.
  const std::string tag = head.is_success() ? head.headers.find("etag") : std::string();
  const std::string etag(registry::strip_etag(tag));
  const bool is_strong = registry::is_strong_etag(tag);
  const auto bytes = head.is_success() ? registry::parse_decimal(head.headers.find("content-length")) : std::nullopt;
  const std::string version = sha256.empty() ? etag : sha256;
  // The origin lacks the query, which the name of the model tells where the user gave it no other.
  const bool is_told = !sha256.empty() || origin == reference.url || name == stored_name_of(reference);
  if (const auto stored = context.store.find(name); stored && is_told && stored->package.origin.source == origin &&
                                                    !version.empty() && stored->package.origin.revision == version) {
    return {.package = package_of(*stored), .revision = version, .file = file_name_of(reference), .was_current = true};
  }

  const DownloadFolder downloads(context.store.root());
  if (bytes) require_space(downloads.path(), *bytes * 2, in_quotes(origin));
  const bool is_identified = !sha256.empty() || is_strong;
  // Parts of two versions with one weak ETag would be one file.
  const bool parts_fit = is_strong || (tag.empty() && !sha256.empty());
  const std::string key = sha256.empty() ? sha256_of(reference.url + "\n" + etag) : sha256;
  std::error_code error;
  if (!is_identified) fs::remove(downloads.path() / key, error);
  const registry::DownloadItem item{
      .name = origin,
      .url = reference.url,
      .authorization = {},
      .headers = {},
      .key = key,
      .bytes = bytes,
      .etag = is_strong ? etag : std::string(),
      .has_ranges = parts_fit && head.headers.find("accept-ranges") == "bytes",
      .problem_of = [&](const fs::path& file) { return problem_of(file, sha256); },
      .error_of = [&](const registry::Response& response) { return address_error(origin, response.status); },
      .on_answer = {}};
  const ScratchFolder scratch(downloads.path() / "import");
  LocatedModel located;
  located.onnx_file = scratch.path() / "model.onnx";
  const registry::DownloadResult result =
      download_in_place(context, downloads.path(), std::span(&item, 1), std::span(&located.onnx_file, 1));
  const StoredModel stored =
      store_file(located, name, {.source = origin, .revision = version, .file = file_name_of(reference)}, context);
  downloads.remove(std::span(&key, 1));
  if (sha256.empty()) {
    context.say(fmt::format("{}: its content was not checked, since no digest was given; its SHA-256 is {}",
                            in_quotes(origin), stored.package.find(stored.package.model_file)->blob.digest));
  }
  return {.package = package_of(stored),
          .revision = version,
          .file = file_name_of(reference),
          .summary = "ONNX",
          .received_bytes = result.received_bytes,
          .reused_bytes = result.resumed_bytes};
}

}  // namespace gpux
