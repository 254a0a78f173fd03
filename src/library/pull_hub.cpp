#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/counted.h"
#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "importer/gguf/import_gguf.h"
#include "library/other_folder.h"
#include "library/pull_source.h"
#include "onnx/model_file.h"
#include "registry/hub/file_choice.h"
#include "registry/hub/hub.h"
#include "registry/hub/hub_cache.h"
#include "registry/hub/weight_header.h"
#include "store/download_folder.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using registry::HubFile;
using registry::HubModelInfo;

/// The file in the cache of huggingface_hub, where it is there and right.
std::optional<fs::path> cached_file(const registry::HubSettings& settings, const HubModelInfo& info,
                                    const HubFile& file) {
  const std::optional<fs::path> path = registry::find_in_cache(settings.cache, info, file);
  try {
    return path && registry::problem_of(file, *path).empty() ? path : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Content that has no digest is known by where it is.
std::string key_of(const HubModelInfo& info, const HubFile& file) {
  return file.content_id().empty() ? sha256_of(info.repository + "\n" + info.commit + "\n" + file.name)
                                   : file.content_id();
}

/// Downloads files of one repository at one commit, and lays them out in a folder.
class RepositoryFiles {
 public:
  RepositoryFiles(const PullContext& context, registry::Hub& hub, const HubModelInfo& info, const fs::path& downloads,
                  fs::path folder)
      : context_(context), hub_(hub), info_(info), downloads_(downloads), folder_(std::move(folder)) {}

  /// Files that are there already are not fetched again.
  void fetch(std::span<const std::string> names) {
    std::vector<registry::DownloadItem> items;
    std::vector<fs::path> places;
    for (const std::string& name : names) {
      if (!fetched_.insert(name).second) continue;
      const HubFile& file = file_of(name);
      if (const auto cached = cached_file(context_.hub, info_, file);
          cached && link_in_place(*cached, folder_ / name)) {
        reused_ += file.bytes;
        continue;
      }
      require_online(name);
      places.push_back(folder_ / name);
      items.push_back(item_of(file));
    }
    const registry::DownloadResult result = download_in_place(context_, downloads_, items, places);
    received_ += result.received_bytes;
    reused_ += result.resumed_bytes;
  }

  /// Lays the header of a safetensors file out, with the file's size; false where the server gives no parts of it.
  bool fetch_header(const std::string& name) {
    const HubFile& file = file_of(name);
    if (link_in_place(downloads_ / key_of(info_, file), folder_ / name)) return true;
    const auto cached = registry::find_in_cache(context_.hub.cache, info_, file);
    if (cached && link_in_place(*cached, folder_ / name)) return true;
    require_online(name);
    const std::optional<std::string> header = registry::fetch_weight_header(context_.client, weights_of(file));
    if (!header) return false;
    received_ += header->size();
    registry::write_header_file(folder_ / name, *header, file.bytes);
    return true;
  }

  /// The first bytes of a file; empty where the server gives no parts of it.
  std::optional<std::string> fetch_beginning(const std::string& name) {
    const HubFile& file = file_of(name);
    constexpr std::uint64_t first_bytes = std::uint64_t{64} << 10;
    std::error_code error;
    std::optional<fs::path> here = registry::find_in_cache(context_.hub.cache, info_, file);
    if (fs::is_regular_file(downloads_ / key_of(info_, file), error)) here = downloads_ / key_of(info_, file);
    if (here) return std::string(MappedFile(*here).text().substr(0, first_bytes));
    require_online(name);
    if (file.bytes == 0) return std::string();
    std::optional<std::string> begin = registry::fetch_beginning(context_.client, weights_of(file), first_bytes);
    if (begin) received_ += begin->size();
    return begin;
  }

  void remove(const std::string& name) const {
    std::error_code error;
    fs::remove(folder_ / name, error);
    require_stored(error, "remove", folder_ / name);
  }

  [[nodiscard]] std::uint64_t bytes(std::span<const std::string> names) const {
    std::uint64_t bytes = 0;
    for (const std::string& name : names) bytes += file_of(name).bytes;
    return bytes;
  }

  /// The bytes of these files that are neither in the cache nor downloaded already.
  [[nodiscard]] std::uint64_t missing_bytes(std::span<const std::string> names) const {
    std::uint64_t bytes = 0;
    for (const std::string& name : names) {
      const HubFile& file = file_of(name);
      std::error_code error;
      if (registry::find_in_cache(context_.hub.cache, info_, file)) continue;
      const std::uint64_t there = fs::file_size(downloads_ / key_of(info_, file), error);
      bytes += file.bytes - (error ? 0 : std::min(there, file.bytes));
    }
    return bytes;
  }

  /// Of the files that were fetched, in the folder of downloads.
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const std::string& name : fetched_) keys.push_back(key_of(info_, file_of(name)));
    return keys;
  }

  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

  [[nodiscard]] std::uint64_t reused() const noexcept { return reused_; }

 private:
  registry::DownloadItem item_of(const HubFile& file) const {
    return {.name = file.name,
            .url = hub_.file_url(info_, file.name),
            .authorization = hub_.authorization(),
            .headers = {},
            .key = key_of(info_, file),
            .bytes = file.bytes,
            .etag = {},
            // Parts of two versions would go unnoticed where no digest is known.
            .has_ranges = !file.content_id().empty(),
            .problem_of = [&file](const fs::path& path) { return registry::problem_of(file, path); },
            .error_of = error_of(file),
            .on_answer = [this, &file](const registry::Response& response) { check_answer(file, response); }};
  }

  registry::RemoteWeights weights_of(const HubFile& file) const {
    return {.name = file.name,
            .url = hub_.file_url(info_, file.name),
            .authorization = hub_.authorization(),
            .bytes = file.bytes,
            .error_of = error_of(file)};
  }

  void check_answer(const HubFile& file, const registry::Response& response) const {
    const auto check = [&](const registry::Headers& headers) {
      const std::string commit = headers.find("x-repo-commit");
      const std::string linked(registry::strip_etag(headers.find("x-linked-etag")));
      if ((!commit.empty() && commit != info_.commit) ||
          (!linked.empty() && !file.content_id().empty() && linked != file.content_id())) {
        throw Error(ErrorCode::network,
                    fmt::format("the hub answers with another version of {} than it listed", in_quotes(file.name)));
      }
    };
    check(response.headers);
    for (const auto& [url, headers] : response.redirects) check(headers);
  }

  std::function<Error(const registry::Response&)> error_of(const HubFile& file) const {
    return [this, &file](const registry::Response& response) {
      // What the hub redirects to answers in its own way: of a file that the hub has listed.
      const bool is_hub = response.redirects.empty() || response.headers.has("x-error-code");
      if (is_hub) return hub_error(response, hub_.request_for(info_.repository, info_.commit, file.name));
      return Error(ErrorCode::network, fmt::format("{} cannot be downloaded: the server that the hub names answers {}",
                                                   in_quotes(file.name), response.status));
    };
  }

  const HubFile& file_of(const std::string& name) const {
    const HubFile* const file = info_.find(name);
    if (file == nullptr) throw Error(ErrorCode::internal, fmt::format("{} is not in the repository", in_quotes(name)));
    return *file;
  }

  void require_online(const std::string& name) const {
    if (context_.hub.offline_variable.empty()) return;
    throw Error(ErrorCode::not_found, format_message("hf.co/{}: the cache '{}' does not have {}, and {} forbids to "
                                                     "download it",
                                                     info_.repository, file_at(context_.hub.cache), in_quotes(name),
                                                     context_.hub.offline_variable));
  }

  const PullContext& context_;
  registry::Hub& hub_;
  const HubModelInfo& info_;
  const fs::path& downloads_;
  fs::path folder_;
  std::set<std::string> fetched_;
  std::uint64_t received_ = 0, reused_ = 0;
};

std::vector<std::string> names_of(const HubModelInfo& info) {
  std::vector<std::string> names;
  for (const HubFile& file : info.files) names.push_back(file.name);
  return names;
}

std::string total_of(const HubModelInfo& info, std::span<const std::string> names) {
  std::uint64_t bytes = 0;
  for (const std::string& name : names) bytes += info.find(name)->bytes;
  return fmt::format("{}, {}", counted(names.size(), "file"), format_bytes(bytes));
}

// External data whose names do not follow from that of the ONNX file.
std::vector<std::string> further_data(const HubModelInfo& info, const fs::path& folder, const std::string& model_file,
                                      std::span<const std::string> known) {
  std::vector<std::string> further;
  for (const ExternalFile& external : onnx::inspect(folder / model_file).external_files) {
    const std::string name =
        (fs::path(model_file).parent_path() / external.location).lexically_normal().generic_string();
    const bool is_known = std::ranges::find(known, name) != known.end();
    if (!is_known && info.find(name) != nullptr) further.push_back(name);
  }
  return further;
}

// The name of the repository without its organization.
std::string package_name(const std::string& repository) {
  const std::string name = registry::as_name_part(repository.substr(repository.rfind('/') + 1));
  return name.empty() ? "model" : name;
}

std::string revision_text(const std::string& commit) {
  constexpr std::size_t shown_digits = 12;
  return commit.substr(0, shown_digits);
}

HubModelInfo info_of(const registry::HubReference& reference, registry::Hub& hub, const PullContext& context) {
  const std::string& variable = context.hub.offline_variable;
  if (variable.empty()) return hub.info(reference.repository, reference.revision);
  std::optional<HubModelInfo> cached =
      registry::find_cached_model(context.hub.cache, reference.repository, reference.revision);
  if (!cached) {
    throw Error(ErrorCode::not_found,
                format_message("cannot download {}: {} forbids it, and the cache '{}' does not have the model",
                               in_quotes(reference.text()), variable, file_at(context.hub.cache)));
  }
  return *std::move(cached);
}

// The folder is one of this process: the user knows its files by the repository, which begins the message.
Error as_of_hub(const Error& error, const fs::path& folder, const std::string& repository) {
  const Error known = in_other_folder(error, folder, repository);
  Message message = known.parts();
  const auto* first = message.empty() ? nullptr : std::get_if<Subject>(&message.front());
  const auto* rest = message.size() < 2 ? nullptr : std::get_if<std::string>(&message[1]);
  const bool repeats = first != nullptr && first->name == repository && rest != nullptr && rest->starts_with(": ");
  if (!repeats) return known;
  message[1] = rest->substr(2);
  message.erase(message.begin());
  return {known.code(), std::move(message)};
}

bool are_on_one_file_system(const fs::path& a, const fs::path& b) {
  struct stat of_a {};

  struct stat of_b {};

  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev;
}

// The ONNX file is made among the temporary files, and copied into the store.
void require_space_for_conversion(std::uint64_t missing, std::uint64_t converted, const fs::path& downloads,
                                  const std::string& name) {
  const fs::path temporary = fs::temp_directory_path();
  const std::uint64_t copies = are_on_one_file_system(downloads, temporary) ? 2 : 1;
  const std::string what = name + ", converted to ONNX,";
  require_space(downloads, missing + copies * converted, what);
  require_space(temporary, converted, what);
}

template <typename Check>
void before_weights(const std::string& name, const fs::path& folder, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    throw as_of_hub(error, folder, name).within(name + " cannot be stored as a model (weights were not downloaded)");
  }
}

/// Fetches the settings, and refuses what cannot be stored before its weights are downloaded: what is not supported,
/// and a disk that is too small. Of a GGUF file, which has its settings in itself, the first ones are looked at.
void fetch_settings(RepositoryFiles& files, const registry::FileChoice& choice, const std::string& name,
                    const fs::path& folder, const fs::path& downloads, const std::string& reranker) {
  const bool is_onnx = !choice.model_file.empty();
  std::vector<std::string> settings, headers;
  std::ranges::set_difference(choice.files, choice.weights, std::back_inserter(settings));
  std::ranges::copy_if(choice.weights, std::back_inserter(headers),
                       [](const std::string& file) { return file.ends_with(".safetensors"); });
  // The files, and the store's copies of ONNX files.
  const std::uint64_t missing = files.missing_bytes(choice.files);
  require_space(downloads, is_onnx ? 2 * missing : missing, name);
  if (!choice.gguf_file.empty()) {
    require_space_for_conversion(missing, files.bytes(choice.files), downloads, name);
    const std::optional<std::string> first_bytes = files.fetch_beginning(choice.gguf_file);
    if (first_bytes) {
      before_weights(name, folder, [&] { importer::require_importable_gguf(*first_bytes); });
    }
    return;
  }
  files.fetch(settings);
  // Without them, what the names of tensors decide is seen after the download.
  const bool is_described =
      std::ranges::all_of(headers, [&](const std::string& file) { return files.fetch_header(file); });
  if (is_described) {
    std::uint64_t converted = 0;
    before_weights(name, folder, [&] { converted = require_importable_folder(folder, is_onnx, reranker); });
    require_space_for_conversion(files.missing_bytes(choice.files), converted, downloads, name);
  }
  for (const std::string& file : headers) files.remove(file);
}

// The card of a reranker may be all that tells how it reads texts. The cache does not have the hub's description of a
// model.
void add_card(const HubModelInfo& info, const PullContext& context, registry::FileChoice& choice) {
  constexpr const char* card = "README.md";
  const bool is_reranker = info.task == "text-ranking" || !context.hub.offline_variable.empty();
  const bool is_converted = choice.model_file.empty() && choice.gguf_file.empty();
  if (!is_reranker || !is_converted || info.find(card) == nullptr) return;
  choice.files.insert(std::ranges::lower_bound(choice.files, card), card);
}

}  // namespace

namespace {

registry::FileRequest request_for(const registry::HubReference& reference, const PullContext& context) {
  return {.file = context.options.file.empty() ? reference.file : context.options.file,
          .precision = context.options.precision,
          .is_x86 = is_x86(),
          .adds_bytes_exactly = adds_byte_products_exactly(Machine::this_one()),
          .quantization = reference.quantization,
          .layout = {}};
}

bool is_same_content(const PackageOrigin& stored, const PackageOrigin& wanted) {
  return lower(stored.source) == lower(wanted.source) && stored.revision == wanted.revision &&
         stored.file == wanted.file;
}

// Whether the package of that name is what would be downloaded; `pulled` is then about it.
bool is_current(const PullContext& context, const Reference& name, const PackageOrigin& origin, PulledModel& pulled) {
  if (!context.options.reranker.empty()) return false;
  const std::optional<StoredModel> stored = context.store.find(name);
  if (!stored || !is_same_content(stored->package.origin, origin)) return false;
  pulled.package = package_of(*stored);
  pulled.file = origin.file;
  pulled.was_current = true;
  return true;
}

// A hub that lists no digests, and copies in the cache whose names are none.
void say_what_is_unchecked(const HubModelInfo& info, std::span<const std::string> names, const PullContext& context) {
  const auto unknown =
      std::ranges::count_if(names, [&](const std::string& name) { return info.find(name)->content_id().empty(); });
  if (unknown == 0) return;
  context.say(fmt::format("hf.co/{}: no digest is known of {} of {}: of their content the size alone is checked",
                          info.repository, unknown, counted(names.size(), "file")));
}

// Weights of the repository that were not chosen, and how they are.
void say_what_else_there_is(const registry::OtherWeights& others, const std::string& repository,
                            const PullContext& context) {
  const auto list_of = [](const std::vector<std::string>& names) {
    constexpr std::size_t listed = 12;
    const std::vector<std::string> first(names.begin(),
                                         names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), listed)));
    return join(first) + (names.size() > listed ? ", …" : "");
  };
  if (!others.precisions.empty()) {
    context.say(fmt::format("{} also has ONNX files in other precisions (precision): {}", repository,
                            list_of(others.precisions)));
  }
  if (!others.quantizations.empty()) {
    context.say(
        fmt::format("{0} also has GGUF files ({0}:QUANTIZATION): {1}", repository, list_of(others.quantizations)));
  }
}

// The package of what was downloaded to the folder, and what it is in a few words.
std::pair<StoredPackage, std::string> store_downloaded(const registry::FileChoice& choice, const fs::path& folder,
                                                       const std::string& repository, const Reference& name,
                                                       const PackageOrigin& origin, const PullContext& context) {
  ImportRequest import{.folder = (folder / choice.gguf_file).string(),
                       .output = {},
                       .file = choice.model_file,
                       .tags = {name.text()},
                       .load = {},
                       .quantize = {}};
  import.package_name = package_name(repository);
  import.origin = origin;
  import.reranker = context.options.reranker;
  if (choice.model_file.empty()) context.say("converting the weights to ONNX");
  say_where_checked(context);
  try {
    const ImportedFolder made = import_folder(import, context.store);
    if (!made.package) throw Error(ErrorCode::internal, "the model was not stored");
    return {package_of(made.package->stored),
            made.package->task.empty() ? counted(made.package->dimension, "dimension") : made.package->task};
  } catch (const Error& error) {
    throw as_of_hub(error, folder, repository)
        .within(fmt::format("{} was downloaded but cannot be stored as a model (gpux prune removes the files)",
                            repository));
  }
}

}  // namespace

PulledModel pull_from_hub(const registry::HubReference& reference, const Reference& name, const PullContext& context) {
  registry::Hub hub(context.client, context.hub);
  const HubModelInfo info = info_of(reference, hub, context);
  if (lower(info.repository) != lower(reference.repository)) {
    context.say(fmt::format("hf.co/{} is now called hf.co/{}", reference.repository, info.repository));
  }
  const std::string repository = "hf.co/" + info.repository;
  const std::vector<std::string> names = names_of(info);
  registry::FileRequest request = request_for(reference, context);
  PackageOrigin origin{.source = origin_of(reference),
                       .revision = info.commit,
                       .file = registry::find_model_file(names, request, repository),
                       .requested_revision = reference.revision};
  PulledModel pulled{.package = {}, .revision = info.commit, .file = {}, .summary = {}};
  if (is_current(context, name, origin, pulled)) return pulled;
  const DownloadFolder downloads(context.store.root());
  const ScratchFolder scratch(downloads.path() / "import");
  const fs::path folder = scratch.path() / package_name(info.repository);
  require_stored(make_folders(folder), "make the folder", folder);  // even if it gets no settings
  RepositoryFiles files(context, hub, info, downloads.path(), folder);
  request.layout = registry::read_layout(names, request, repository, [&](const std::string& file) {
    files.fetch(std::span(&file, 1));
    return read_file(folder / file);
  });
  registry::FileChoice choice = registry::choose_files(names, request, repository);
  add_card(info, context, choice);
  origin.file = choice.gguf_file.empty() ? choice.model_file : choice.gguf_file;
  pulled.file = origin.file;
  // Weights in a folder that modules.json does not name are not the model.
  if (is_current(context, name, origin, pulled)) {
    downloads.remove(files.keys());
    return pulled;
  }
  context.say(fmt::format("{} at {}: {} ({})", repository, revision_text(info.commit), total_of(info, choice.files),
                          origin.file.empty() ? "safetensors" : origin.file));
  say_what_else_there_is(registry::other_weights(names, request, origin.file), repository, context);
  for (const std::string& file : choice.left_out) {
    context.say(fmt::format("{} is pickled, so it is not read: the model is stored without this head", file));
  }
  say_what_is_unchecked(info, choice.files, context);
  fetch_settings(files, choice, repository, folder, downloads.path(), context.options.reranker);
  context.client.options().cancellation.check();
  files.fetch(choice.weights);
  if (!choice.model_file.empty()) files.fetch(further_data(info, folder, choice.model_file, choice.files));
  context.client.options().cancellation.check();

  std::tie(pulled.package, pulled.summary) = store_downloaded(choice, folder, repository, name, origin, context);
  pulled.received_bytes = files.received();
  pulled.reused_bytes = files.reused();
  downloads.remove(files.keys());
  return pulled;
}

}  // namespace gpux
