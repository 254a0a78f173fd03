#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/durability.h"
#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "library/pull_source.h"
#include "onnx/model_file.h"
#include "registry/hub/file_choice.h"
#include "registry/hub/git_blob.h"
#include "registry/hub/hub.h"
#include "store/download_folder.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using registry::HubFile;
using registry::HubModelInfo;

std::string problem_of(const HubFile& file, const fs::path& path) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error || bytes != file.bytes) return fmt::format("it has {} bytes instead of {}", bytes, file.bytes);
  if (!file.sha256.empty()) {
    const std::string digest = sha256_of_file(path);
    return digest == file.sha256 ? "" : fmt::format("its SHA-256 is {} instead of {}", digest, file.sha256);
  }
  if (file.git_blob_id.empty()) return {};
  const std::string id = registry::git_blob_id_of_file(path);
  return id == file.git_blob_id ? "" : fmt::format("its git id is {} instead of {}", id, file.git_blob_id);
}

/// The file in the cache of huggingface_hub, where it is there and right.
std::optional<fs::path> cached_file(const registry::HubSettings& settings, const std::string& repository,
                                    const HubFile& file) {
  if (file.content_id().empty()) return std::nullopt;
  std::string folder = "models--" + repository;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const fs::path path = settings.cache / folder / "blobs" / file.content_id();
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != file.bytes) return std::nullopt;
  try {
    return problem_of(file, path).empty() ? std::optional(path) : std::nullopt;
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

  void fetch(std::span<const std::string> names) {
    std::vector<registry::DownloadItem> items;
    std::vector<const HubFile*> files;
    for (const std::string& name : names) {
      const HubFile* file = info_.find(name);
      if (file == nullptr)
        throw Error(ErrorCode::internal, fmt::format("{} is not in the repository", in_quotes(name)));
      if (const auto cached = cached_file(context_.hub, info_.repository, *file)) {
        lay_out(*cached, name);
        reused_ += file->bytes;
        continue;
      }
      files.push_back(file);
      items.push_back(item_of(*file));
    }
    require_space_for(items);
    const registry::DownloadResult result =
        registry::download(context_.client, downloads_, items, download_options(context_));
    for (std::size_t i = 0; i < files.size(); ++i) lay_out(result.files[i], files[i]->name);
    received_ += result.received_bytes;
    reused_ += result.resumed_bytes;
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
            .has_ranges = true,
            .problem_of = [&file](const fs::path& path) { return problem_of(file, path); },
            .error_of =
                [this, &file](const registry::Response& response) {
                  // What the hub redirects to answers in its own way: of a file that the hub has listed.
                  const bool is_hub = response.redirects.empty() || response.headers.has("x-error-code");
                  if (is_hub) return hub_error(response, hub_.request_for(info_.repository, info_.commit, file.name));
                  return Error(ErrorCode::network, fmt::format("{} cannot be downloaded: the server that the hub names "
                                                               "answers {}",
                                                               in_quotes(file.name), response.status));
                },
            .on_answer = [this, &file](const registry::Response& response) { check_answer(file, response); }};
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

  // The files, and what the store makes of them.
  void require_space_for(std::span<const registry::DownloadItem> items) const {
    std::uint64_t bytes = 0;
    for (const registry::DownloadItem& item : items) {
      std::error_code error;
      const std::uint64_t there = fs::file_size(downloads_ / item.key, error);
      bytes += item.bytes.value_or(0) * 2 - (error ? 0 : std::min(there, item.bytes.value_or(0)));
    }
    require_space(downloads_, bytes, "hf.co/" + info_.repository);
  }

  void lay_out(const fs::path& source, const std::string& name) const {
    const fs::path place = folder_ / name;
    require_stored(make_folders(place.parent_path()), "make the folder", place.parent_path());
    std::error_code error;
    fs::create_hard_link(source, place, error);
    if (error) {
      error.clear();
      fs::create_symlink(fs::absolute(source), place, error);
    }
    require_stored(error, "make the link", place);
  }

  const PullContext& context_;
  registry::Hub& hub_;
  const HubModelInfo& info_;
  const fs::path& downloads_;
  fs::path folder_;
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

}  // namespace

std::string origin_of(const registry::HubReference& reference) {
  return "https://huggingface.co/" + reference.repository;
}

PulledModel pull_from_hub(const registry::HubReference& reference, const Reference& name, const PullContext& context) {
  registry::Hub hub(context.client, context.hub);
  const HubModelInfo info = hub.info(reference.repository, reference.revision);
  if (lower(info.repository) != lower(reference.repository)) {
    context.say(fmt::format("hf.co/{} is now called hf.co/{}", reference.repository, info.repository));
  }
  registry::FileRequest request{.file = context.options.file.empty() ? reference.file : context.options.file,
                                .precision = context.options.precision,
                                .is_x86 = is_x86(),
                                .adds_bytes_exactly = adds_byte_products_exactly(Machine::this_one())};
  const registry::FileChoice choice = registry::choose_files(names_of(info), request, "hf.co/" + info.repository);
  const PackageOrigin origin{.source = origin_of(reference), .revision = info.commit, .file = choice.model_file};

  PulledModel pulled{.package = {}, .revision = info.commit, .file = choice.model_file, .summary = {}};
  if (auto stored = find_pulled(context.store, name, origin.source); stored && stored->package.origin == origin) {
    pulled.package = package_of(*stored);
    pulled.was_current = true;
    return pulled;
  }
  context.say(fmt::format("hf.co/{} at {}: {} ({})", info.repository, revision_text(info.commit),
                          total_of(info, choice.files), choice.model_file.empty() ? "safetensors" : choice.model_file));
  const DownloadFolder downloads(context.store.root());
  const ScratchFolder scratch(downloads.path() / "import");
  const fs::path folder = scratch.path() / package_name(info.repository);
  RepositoryFiles files(context, hub, info, downloads.path(), folder);
  files.fetch(choice.files);
  if (!choice.model_file.empty()) files.fetch(further_data(info, folder, choice.model_file, choice.files));
  context.client.options().cancellation.check();

  ImportRequest import{.folder = folder.string(),
                       .output = {},
                       .file = choice.model_file,
                       .tags = {name.text()},
                       .load = {},
                       .quantize = {}};
  import.package_name = package_name(info.repository);
  import.origin = origin;
  if (choice.model_file.empty()) context.say("converting the weights to ONNX");
  try {
    const ImportedFolder made = import_folder(import, context.store);
    if (!made.package) throw Error(ErrorCode::internal, "the model was not stored");
    pulled.package = package_of(made.package->stored);
    pulled.summary = made.package->task.empty() ? counted(made.package->dimension, "dimension") : made.package->task;
  } catch (const Error& error) {
    throw error.within(
        fmt::format("hf.co/{} was downloaded but cannot be stored as a model (gpux prune removes the "
                    "files)",
                    info.repository));
  }
  pulled.received_bytes = files.received();
  pulled.reused_bytes = files.reused();
  std::vector<std::string> keys;
  for (const std::string& file : choice.files) keys.push_back(key_of(info, *info.find(file)));
  downloads.remove(keys);
  return pulled;
}

}  // namespace gpux
