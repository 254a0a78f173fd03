#include "provider/engine_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <link.h>
#include <nlohmann/json.hpp>

#include "base/changing_files.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/memory_size.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/shape_profile.h"

namespace gpux::provider {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* record_name = "engine.json";
constexpr std::uint64_t record_limit = std::uint64_t{1} << 20;
constexpr std::uint64_t default_limit = std::uint64_t{5} << 30;
constexpr std::chrono::minutes in_use{10};

/// A part of the key, as people read of it.
struct Part {
  const char* name;
  std::string EngineKey::*member;
};

// In the order in which a change is reported: the first that changed is mostly why the later ones did.
constexpr std::array<Part, 8> parts{{{"provider", &EngineKey::provider},
                                     {"model", &EngineKey::model},
                                     {"device", &EngineKey::device},
                                     {"compute capability", &EngineKey::architecture},
                                     {"driver", &EngineKey::driver},
                                     {"provider's version", &EngineKey::version},
                                     {"shape profile", &EngineKey::shape_profile},
                                     {"options", &EngineKey::options}}};

constexpr std::array<std::string_view, 10> cache_options{"trt_engine_cache_enable",
                                                         "trt_engine_cache_path",
                                                         "trt_timing_cache_enable",
                                                         "trt_timing_cache_path",
                                                         "nv_runtime_cache_path",
                                                         "migraphx_model_cache_dir",
                                                         "cache_dir",
                                                         "ModelCacheDirectory",
                                                         "cache_directory",
                                                         "trt_engine_cache_prefix"};

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

EngineKey read_record(const fs::path& folder) {
  const Json json = Json::parse(read_file(folder / record_name, record_limit));
  EngineKey key;
  for (const Part& part : parts) key.*part.member = json.at(part.name).get<std::string>();
  return key;
}

std::optional<EngineKey> record_of(const fs::path& folder) {
  try {
    return read_record(folder);
  } catch (const Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void write_record(const EngineKey& key, const fs::path& folder) {
  Json json;
  for (const Part& part : parts) json[part.name] = key.*part.member;
  write_file_atomically(folder / record_name, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// One folder of the cache.
struct Kept {
  fs::path folder;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

// All engines, the one that was used last first.
std::vector<Kept> kept_in(const fs::path& root) {
  std::vector<Kept> all;
  for (const fs::path& provider : folders_in(root)) {
    for (const fs::path& folder : folders_in(provider)) {
      std::error_code error;
      const fs::file_time_type used = fs::last_write_time(folder / record_name, error);
      all.push_back({folder, error ? fs::file_time_type::min() : used, bytes_below(folder)});
    }
  }
  std::ranges::sort(all, std::ranges::greater(), &Kept::used);
  return all;
}

void make_room(const fs::path& root, std::uint64_t limit) {
  std::uint64_t bytes = 0;
  const auto now = fs::file_time_type::clock::now();
  for (const Kept& kept : kept_in(root)) {
    bytes += kept.bytes;
    if (bytes <= limit || kept.used + in_use > now) continue;
    std::error_code error;
    fs::remove_all(kept.folder, error);
    log::info("removed the engines in '{}', which were not used for the longest time", kept.folder.string());
    bytes -= kept.bytes;
  }
}

bool has_engines(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != record_name) return true;
  }
  return false;
}

// The engine of the same model that was used last tells what is different now.
std::string reason_to_compile(const fs::path& folder_of_provider, const EngineKey& key) {
  std::optional<EngineKey> last;
  fs::file_time_type used = fs::file_time_type::min();
  for (const fs::path& folder : folders_in(folder_of_provider)) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(folder / record_name, error);
    if (error || time < used || !has_engines(folder)) continue;
    const std::optional<EngineKey> other = record_of(folder);
    if (!other || other->model != key.model) continue;
    last = other;
    used = time;
  }
  return last ? difference(*last, key) : std::string();
}

}  // namespace

std::string folder_name(const EngineKey& key) {
  std::string text = "engine 1\n";
  for (const Part& part : parts)
    text += fmt::format("{} {} {}\n", part.name, (key.*part.member).size(), key.*part.member);
  constexpr std::size_t digits = 32;
  return sha256_of(text).substr(0, digits);
}

std::string difference(const EngineKey& kept, const EngineKey& wanted) {
  std::vector<std::string> changes;
  for (const Part& part : parts) {
    const std::string &before = kept.*part.member, &now = wanted.*part.member;
    if (before != now)
      changes.push_back(fmt::format("the {} changed from {} to {}", part.name, or_none(before), or_none(now)));
  }
  return join(changes);
}

EngineKey engine_key(const ProviderRow& row, const std::string& model, const std::string& version,
                     const ResolvedOptions& options, const std::optional<Device>& device) {
  EngineKey key;
  key.provider = row.id;
  key.model = model;
  key.version = version;
  if (device) {
    key.driver = device->driver;
    key.device = device->name;
    key.architecture = device->architecture;
  }
  std::vector<std::string> values, shapes;
  for (const auto& [name, value] : options.passed) {
    if (is_cache_option(name)) continue;
    (is_shape_option(name) ? shapes : values).push_back(fmt::format("{}={}", name, value));
  }
  std::ranges::sort(values);
  std::ranges::sort(shapes);
  key.options = join(values);
  key.shape_profile = join(shapes);
  return key;
}

std::string compiled_by(const std::string& core_version, const fs::path& library, std::span<const fs::path> compilers) {
  std::vector<std::string> states;
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    const auto bytes = fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error).time_since_epoch();
    if (error) return;
    states.push_back(fmt::format("{} of {} bytes, state {:x}", file.filename().string(), bytes,
                                 static_cast<std::uint64_t>(time.count())));
  };
  add(library);
  std::ranges::for_each(compilers, add);
  return states.empty() ? core_version : fmt::format("{} ({})", core_version, join(states));
}

std::vector<fs::path> loaded_compilers(const ProviderRow& row) {
  struct Found {
    const ProviderRow& row;
    std::vector<fs::path> files = {};
  } found{row};

  ::dl_iterate_phdr(
      [](dl_phdr_info* loaded, std::size_t, void* given) {
        auto& all = *static_cast<Found*>(given);
        const fs::path file = loaded->dlpi_name == nullptr ? "" : loaded->dlpi_name;
        const std::string name = file.filename();
        std::error_code error;
        const bool is_one = std::ranges::any_of(
            all.row.compilers, [&](std::string_view beginning) { return name.starts_with(beginning); });
        if (is_one) all.files.push_back(fs::weakly_canonical(file, error));
        return 0;
      },
      &found);
  std::ranges::sort(found.files);
  return found.files;
}

bool is_cache_option(std::string_view name) {
  return std::ranges::find(cache_options, name) != cache_options.end();
}

bool can_keep_engines(const ProviderRow& row) {
  // VitisAI's folder needs a name for the model beside it; CANN has no folder.
  static constexpr std::array<std::string_view, 5> ids{"tensorrt", "tensorrt-rtx", "migraphx", "openvino", "coreml"};
  return std::ranges::find(ids, row.id) != ids.end();
}

bool gains_by_engines(const ProviderRow& row, const std::optional<Device>& device) {
  return row.id != "openvino" || !device || device->kind != "cpu";
}

bool takes_engine_folder(const ProviderRow& row, bool as_plugin, const OptionList& given) {
  return can_keep_engines(row) && std::ranges::none_of(given, [&](const auto& option) {
           // OpenVINO's plugin has all its settings in one text, which is the user's where there is one.
           return is_cache_option(option.first) || (as_plugin && option.first == "load_config");
         });
}

std::optional<EngineCache> EngineCache::of(const Machine& machine) {
  std::uint64_t limit = default_limit;
  if (const std::string text = machine.variable("GPUX_ENGINE_CACHE_SIZE"); !text.empty()) {
    const auto bytes = parse_memory_size(text);
    if (!bytes) {
      throw Error(
          ErrorCode::usage,
          fmt::format("GPUX_ENGINE_CACHE_SIZE is '{}'; accepted: a size like 5GB; 0: no engines are kept", text));
    }
    limit = *bytes;
  }
  if (limit == 0) return std::nullopt;
  return EngineCache(machine.home_folder() / "cache" / "engines", limit);
}

EngineFolder EngineCache::open(const EngineKey& key) const {
  const fs::path of_provider = root_ / key.provider;
  EngineFolder folder{.path = of_provider / folder_name(key), .is_warm = false, .reason = {}};
  try {
    std::error_code error;
    folder.is_warm = has_engines(folder.path);
    if (!folder.is_warm) {
      folder.reason = reason_to_compile(of_provider, key);
      make_room(root_, limit_);
      fs::create_directories(folder.path, error);
      if (error) throw_file_error("make the folder", folder.path, error.value());
    }
    if (folder.is_warm) {
      fs::last_write_time(folder.path / record_name, fs::file_time_type::clock::now(), error);
    }
    if (!folder.is_warm || error) write_record(key, folder.path);
  } catch (const Error& error) {
    log::info("no engines are kept: {}", error.message());
    return {};
  }
  return folder;
}

void discard_engines(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != record_name) entries.push_back(entry->path());
  }
  for (const fs::path& entry : entries) fs::remove_all(entry, error);
}

namespace {

// By content, as a model that is stored or moved keeps its engines. Read once by a process.
std::string file_digest(const fs::path& file) {
  static std::mutex mutex;
  static std::map<fs::path, std::pair<FileStamp, std::string>> known;
  const fs::path path = fs::absolute(file);
  const FileStamp stamp = stamp_of(path);
  {
    const std::lock_guard lock(mutex);
    const auto found = known.find(path);
    if (found != known.end() && found->second.first == stamp) return found->second.second;
  }
  std::string digest = sha256_of_file(path);
  const std::lock_guard lock(mutex);
  known.insert_or_assign(path, std::pair(stamp, digest));
  return digest;
}

}  // namespace

std::string model_digest(std::span<const fs::path> files) {
  std::string digest = file_digest(files.front());
  if (files.size() == 1) return digest;
  for (const fs::path& file : files.subspan(1)) digest += "\n" + file_digest(file);
  return sha256_of(digest);
}

}  // namespace gpux::provider
