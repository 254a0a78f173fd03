#include "installation/installation.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/counted.h"
#include "base/durability.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/format_message.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "base/unique_fd.h"
#include "gpux/error.h"

namespace gpux::installation {
namespace {

namespace fs = std::filesystem;
using ort::InstalledProvider;

constexpr std::uint64_t report_limit = std::uint64_t{64} << 20;

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

/// Removes the folder in the end, where nothing is in it.
class RemovedIfEmpty {
 public:
  explicit RemovedIfEmpty(fs::path folder) : folder_(std::move(folder)) {}

  ~RemovedIfEmpty() {
    std::error_code error;
    fs::remove(folder_, error);
  }

  RemovedIfEmpty(const RemovedIfEmpty&) = delete;
  RemovedIfEmpty& operator=(const RemovedIfEmpty&) = delete;

 private:
  fs::path folder_;
};

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_file_error("make the folder", folder, error.value());
}

std::string listed(const std::vector<InstalledProvider>& providers) {
  std::vector<std::string> names;
  for (const InstalledProvider& provider : providers) {
    names.push_back(fmt::format("{}@{}", provider.name, provider.version));
  }
  return names.empty() ? "nothing is installed" : "installed: " + join(names);
}

std::vector<std::string> package_words(const std::vector<ort::InstalledPackage>& packages) {
  std::vector<std::string> words;
  for (const ort::InstalledPackage& package : packages) {
    words.push_back(fmt::format("{} {}", package.name, package.version));
  }
  return words;
}

// Undamaged; what is not as it was installed is installed anew.
bool is_there(const fs::path& folder, const Machine& machine) {
  for (const InstalledProvider& provider : ort::find_installed_providers(machine, ort::Comparison::content)) {
    if (provider.folder == folder) return provider.damage.empty();
  }
  return false;
}

// Its locks are files of the folder, so that it goes as a whole.
void take_away(const InstalledProvider& provider, const ScratchFolder& scratch) {
  const auto lock = FileLock::try_exclusive(ort::use_lock(provider.folder));
  if (!lock) {
    throw Error(ErrorCode::permission, fmt::format("cannot remove {}@{}: a process uses it; 'gpux ps' lists servers",
                                                   provider.name, provider.version));
  }
  if (const int error = rename_file(provider.folder, scratch.path() / ("removed-" + provider.version)); error != 0) {
    throw_file_error("remove", provider.folder, error);
  }
}

void put_in_place(const InstalledProvider& provider, const fs::path& made, const ScratchFolder& scratch) {
  std::error_code error;
  if (fs::exists(provider.folder, error)) take_away(provider, scratch);
  if (const UniqueFd folder(::open(made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); folder) {
    if (const int failure = sync_file_system(folder.get()); failure != 0) throw_file_error("write", made, failure);
  }
  if (const int failure = scratch.move_out(made, provider.folder); failure != 0) {
    throw_file_error("make", provider.folder, failure);
  }
  if (const int failure = sync_folder(provider.folder.parent_path()); failure != 0) {
    throw_file_error("write", provider.folder.parent_path(), failure);
  }
}

// The versions that pip would install.
InstalledProvider make_plan(const Machine& machine, const PackageSet& set, const std::string& version,
                            const Source& source, const ScratchFolder& scratch) {
  const std::vector<std::string> requirements = requirements_of(set, version);
  const fs::path report = scratch.path() / "report.json";
  InstalledProvider provider;
  provider.name = set.name;
  provider.client = client_version();
  run_client(fmt::format("cannot install {}", set.name), planning_arguments(requirements, source, report), source,
             scratch.path());
  provider.packages = read_plan(read_file(report, report_limit), requirements);
  provider.version = provider.packages.front().version;
  provider.folder = ort::installed_providers_folder(machine) / provider.name / provider.version;
  return provider;
}

}  // namespace

InstallResult install(const Machine& machine, const PackageSet& set, const std::string& version,
                      const InstallOptions& options, const StepListener& listener) {
  Source source = options.source;
  if (!source.folder.empty()) {
    std::error_code error;
    source.folder = fs::absolute(source.folder);
    if (!fs::is_directory(source.folder, error)) {
      throw Error(ErrorCode::not_found,
                  format_message("{}: '{}' is no folder", setting_named("from"), file_at(options.source.folder)));
    }
  }
  const fs::path named = ort::installed_providers_folder(machine) / std::string(set.name);
  const RemovedIfEmpty folder_of_name(named);
  const ScratchFolder scratch(named / "incoming");
  listener(fmt::format("looking for the packages of {}", set.name));
  InstallResult result{.provider = make_plan(machine, set, version, source, scratch)};
  InstalledProvider& provider = result.provider;
  result.was_there = is_there(provider.folder, machine);
  if (result.was_there || options.is_dry_run) return result;

  listener(fmt::format("installing {}: {}", counted(provider.packages.size(), "package"),
                       join(package_words(provider.packages))));
  const fs::path made = scratch.path() / "new", packages = made / "site-packages";
  make_folder(packages);
  const fs::path pinned = scratch.path() / "requirements.txt";
  write_file_atomically(pinned, pinned_requirements(provider.packages));
  run_client(fmt::format("cannot install {}", set.name), unpacking_arguments(pinned, source, packages), source,
             scratch.path());
  const fs::path place = std::exchange(provider.folder, made);
  provider.installed = now();
  provider.libraries = ort::library_files(packages);
  ort::record_installation(provider);
  provider.folder = place;
  result.bytes = bytes_below(made);
  put_in_place(provider, made, scratch);
  return result;
}

std::vector<InstalledProvider> remove(const Machine& machine, const std::string& name, const std::string& version) {
  const std::vector<InstalledProvider> all = ort::find_installed_providers(machine);
  std::vector<InstalledProvider> chosen;
  std::ranges::copy_if(all, std::back_inserter(chosen), [&](const InstalledProvider& provider) {
    return provider.name == name && (version.empty() || provider.version == version);
  });
  if (chosen.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("cannot remove {}{}: it is not installed; {}", name,
                                                  version.empty() ? "" : "@" + version, listed(all)));
  }
  const RemovedIfEmpty folder_of_name(chosen.front().folder.parent_path());
  const ScratchFolder scratch(chosen.front().folder.parent_path() / "removed");
  for (const InstalledProvider& provider : chosen) take_away(provider, scratch);
  return chosen;
}

}  // namespace gpux::installation
