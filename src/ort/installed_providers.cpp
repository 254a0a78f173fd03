#include "ort/installed_providers.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/json_problem.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::ort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* manifest_name = "installed.json";
constexpr std::uint64_t manifest_limit = std::uint64_t{16} << 20;

// Since 1970, unlike the time of std::filesystem, whose beginning each library chooses.
std::int64_t modified(const fs::path& file, std::error_code& error) {
  struct stat status {};

  if (::stat(file.c_str(), &status) != 0) {
    error = std::error_code(errno, std::generic_category());
    return 0;
  }
  constexpr std::int64_t nanoseconds = 1'000'000'000;
  return status.st_mtim.tv_sec * nanoseconds + status.st_mtim.tv_nsec;
}

bool is_library(const fs::path& file) {
  const std::string name = file.filename();
  return name.ends_with(".so") || name.find(".so.") != std::string::npos || name.ends_with(".dylib") ||
         name.ends_with(".dll");
}

// What differs from the recorded library; empty: nothing.
std::string difference(const fs::path& packages, const InstalledFile& recorded, Comparison comparison) {
  const fs::path file = packages / recorded.path;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return fmt::format("'{}' is missing", recorded.path);
  const std::uint64_t bytes = fs::file_size(file, error);
  const std::int64_t time = modified(file, error);
  if (error) return fmt::format("'{}' cannot be read: {}", recorded.path, error.message());
  if (bytes != recorded.bytes) return fmt::format("'{}' has changed", recorded.path);
  if (comparison == Comparison::times && time == recorded.modified) return {};
  try {
    if (sha256_of_file(file) != recorded.sha256) return fmt::format("'{}' has changed", recorded.path);
  } catch (const Error& failure) {
    return failure.message();
  }
  return {};
}

InstalledProvider read_manifest(const fs::path& folder) {
  const Json json = Json::parse(read_file(folder / manifest_name, manifest_limit));
  InstalledProvider provider;
  provider.name = json.at("provider").get<std::string>();
  provider.version = json.at("version").get<std::string>();
  provider.folder = folder;
  provider.client = json.at("client").get<std::string>();
  provider.installed = json.at("installed").get<std::string>();
  for (const Json& package : json.at("packages")) {
    provider.packages.push_back({package.at("name").get<std::string>(), package.at("version").get<std::string>(),
                                 package.at("wheel").get<std::string>(), package.at("sha256").get<std::string>()});
  }
  for (const Json& file : json.at("libraries")) {
    provider.libraries.push_back({file.at("path").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                                  file.at("sha256").get<std::string>(), file.at("modified").get<std::int64_t>()});
  }
  return provider;
}

InstalledProvider inspect(const std::string& name, const fs::path& folder, Comparison comparison) {
  InstalledProvider provider;
  try {
    provider = read_manifest(folder);
  } catch (const Error& error) {
    provider.damage = error.message();
  } catch (const Json::exception& exception) {
    provider.damage = fmt::format("'{}' is not what gpux wrote: {}", manifest_name, json_problem(exception));
  }
  // By its place, whatever its record says.
  provider.name = name;
  provider.version = folder.filename();
  provider.folder = folder;
  for (const InstalledFile& file : provider.libraries) {
    if (!provider.damage.empty()) break;
    provider.damage = difference(provider.packages_folder(), file, comparison);
  }
  return provider;
}

// A process looks for providers many times. What it found of an installation holds until that is made anew.
InstalledProvider inspect_once(const std::string& name, const fs::path& folder) {
  static std::mutex mutex;
  static std::map<fs::path, std::pair<std::int64_t, InstalledProvider>> known;
  std::error_code error;
  const std::int64_t recorded = modified(folder / manifest_name, error);
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(folder); found != known.end() && found->second.first == recorded) {
    return found->second.second;
  }
  InstalledProvider provider = inspect(name, folder, Comparison::times);
  known.insert_or_assign(folder, std::pair(recorded, provider));
  return provider;
}

}  // namespace

bool is_older_version(const std::string& version, std::string_view floor) {
  const std::vector<std::string> have = split(version, '.'), want = split(floor, '.');
  for (std::size_t i = 0; i < want.size(); ++i) {
    const long a = i < have.size() ? std::strtol(have[i].c_str(), nullptr, 10) : 0;
    const long b = std::strtol(want[i].c_str(), nullptr, 10);
    if (a != b) return a < b;
  }
  return false;
}

fs::path installed_providers_folder(const Machine& machine) {
  return machine.home_folder() / "providers";
}

std::vector<InstalledProvider> find_installed_providers(const Machine& machine, Comparison comparison) {
  std::vector<InstalledProvider> providers;
  for (const fs::path& named : folders_in(installed_providers_folder(machine))) {
    const auto first = static_cast<std::ptrdiff_t>(providers.size());
    for (const fs::path& folder : folders_in(named)) {
      std::error_code error;
      if (!fs::exists(folder / manifest_name, error)) continue;
      const std::string name = named.filename();
      providers.push_back(comparison == Comparison::times ? inspect_once(name, folder)
                                                          : inspect(name, folder, comparison));
    }
    std::stable_sort(providers.begin() + first, providers.end(),
                     [](const auto& a, const auto& b) { return is_older_version(b.version, a.version); });
  }
  return providers;
}

void record_installation(const InstalledProvider& provider) {
  Json json;
  json["provider"] = provider.name;
  json["version"] = provider.version;
  json["client"] = provider.client;
  json["installed"] = provider.installed;
  json["packages"] = Json::array();
  for (const InstalledPackage& package : provider.packages) {
    json["packages"].push_back(
        {{"name", package.name}, {"version", package.version}, {"wheel", package.wheel}, {"sha256", package.sha256}});
  }
  json["libraries"] = Json::array();
  for (const InstalledFile& file : provider.libraries) {
    json["libraries"].push_back(
        {{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"modified", file.modified}});
  }
  write_file_atomically(provider.folder / manifest_name,
                        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<InstalledFile> library_files(const fs::path& packages) {
  std::vector<InstalledFile> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(packages, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_regular_file(unreadable) || entry->is_symlink(unreadable) || !is_library(entry->path())) continue;
    InstalledFile file;
    file.path = entry->path().lexically_relative(packages).generic_string();
    file.bytes = entry->file_size(unreadable);
    file.sha256 = sha256_of_file(entry->path());
    file.modified = modified(entry->path(), unreadable);
    files.push_back(std::move(file));
  }
  if (error) throw_file_error("read", packages, error.value());
  std::ranges::sort(files, {}, &InstalledFile::path);
  return files;
}

fs::path use_lock(const fs::path& installation) {
  return installation / "in-use.lock";
}

void hold_installation_of(const fs::path& library) {
  static std::mutex mutex;
  // Never freed: the libraries stay in use until the process ends.
  static auto& held = *new std::map<fs::path, FileLock>;
  for (fs::path folder = library.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    std::error_code error;
    if (folder.filename() != "site-packages" || !fs::exists(folder.parent_path() / manifest_name, error)) continue;
    const fs::path installation = folder.parent_path();
    const std::lock_guard lock(mutex);
    if (held.contains(installation)) return;
    try {
      held.emplace(installation, FileLock(use_lock(installation), FileLock::Mode::shared));
    } catch (const Error& failure) {
      // As in a home that cannot be written: who could not lock it cannot remove it either.
      log::debug("{}", failure.message());
    }
    return;
  }
}

}  // namespace gpux::ort
