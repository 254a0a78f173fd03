#include "daemon/vector_folder.h"

#include <array>
#include <cerrno>
#include <ctime>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/unique_fd.h"
#include "base/write_fully.h"
#include "gpux/tensor.h"
#include "tensor/json_writer.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;

constexpr const char* vectors = "vectors";
constexpr const char* timing = "timing";
constexpr const char* rejected = "rejected";
constexpr std::string_view unfinished = ".part";

UniqueFd opened(const fs::path& path, int flags) {
  UniqueFd descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!descriptor) throw_file_error("open", path, errno);
  return descriptor;
}

void make_folder(const fs::path& folder) {
  if (const std::error_code error = make_folders(folder)) throw_file_error("make the folder", folder, error.value());
}

void remove_unfinished(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') && name.ends_with(unfinished)) fs::remove(entry.path(), error);
  }
}

void append_text(std::string& out, std::string_view name, std::string_view value) {
  out += fmt::format(R"(, "{}": )", name);
  append_json_string(out, value);
}

// Null where it is empty.
void append_optional(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) {
    out += fmt::format(R"(, "{}": null)", name);
  } else {
    append_text(out, name, value);
  }
}

}  // namespace

std::string utc_time(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text.data(), length), milliseconds % 1000);
}

std::string vec_document(const EmbeddedEvent& event) {
  std::string out = fmt::format(R"({{"hash": "{}", "vector": )", event.hash);
  append_json(out, Tensor::borrow(ElementType::float32, {static_cast<std::int64_t>(event.vector.size())},
                                  std::as_bytes(std::span(event.vector))));
  out += R"(, "metadata": {"model": )";
  append_json_string(out, event.model);
  out += fmt::format(R"(, "digest": "sha256:{}", "dimension": {})", event.digest, event.vector.size());
  append_optional(out, "level", event.level);
  append_text(out, "source", event.source);
  append_text(out, "position", event.position);
  append_optional(out, "category", event.event.plugin);
  append_optional(out, "action", event.event.operation);
  append_optional(out, "plugin_id", event.event.plugin);
  out += fmt::format(R"(, "timestamp": {}, "data_hash": "{}")", event.event.timestamp, event.event.data_hash);
  append_text(out, "text", event.event.text);
  return out + "}}\n";
}

std::string timing_document(const EmbeddedEvent& event) {
  std::string out = fmt::format(R"({{"hash": "{}", "timestamp": {})", event.hash, event.event.timestamp);
  append_optional(out, "category", event.event.plugin);
  append_optional(out, "action", event.event.operation);
  out += R"(, "data": {"data_hash": ")" + event.event.data_hash + '"';
  append_optional(out, "plugin_id", event.event.plugin);
  append_optional(out, "operation", event.event.operation);
  out += R"(, "metadata": )" + event.event.metadata + "}";
  append_text(out, "source", event.source);
  append_text(out, "position", event.position);
  out += R"(, "id": )" + (event.event.id.empty() ? "null" : event.event.id);
  out += fmt::format(R"(, "taken_at": "{}", "embedded_at": "{}", "embed_ms": {:.3f})", utc_time(event.taken),
                     utc_time(event.embedded), event.embed_ms);
  append_text(out, "model", event.model);
  append_optional(out, "level", event.level);
  append_text(out, "provider", event.provider);
  return out + "}\n";
}

std::string refusal_document(const RefusedEvent& event) {
  std::string out = fmt::format(R"({{"hash": "{}")", event.hash);
  append_text(out, "source", event.source);
  append_text(out, "position", event.position);
  append_text(out, "reason", event.reason);
  append_text(out, "taken_at", utc_time(event.taken));
  append_text(out, "content", event.content);
  return out + "}\n";
}

VectorFolder::VectorFolder(fs::path folder) : folder_(std::move(folder)) {
  for (const char* name : {vectors, timing, rejected}) {
    make_folder(folder_ / name);
    remove_unfinished(folder_ / name);
  }
}

bool VectorFolder::has(const std::string& hash) const {
  return ::access((folder_ / vectors / (hash + ".vec")).c_str(), F_OK) == 0 || has_rejected(hash);
}

bool VectorFolder::has_rejected(const std::string& hash) const {
  return ::access((folder_ / rejected / (hash + ".json")).c_str(), F_OK) == 0;
}

VectorFolder::Written VectorFolder::put(const char* folder, const std::string& name, std::string_view content) const {
  Written written{folder_ / folder / ("." + name + std::string(unfinished)), folder_ / folder / name};
  const UniqueFd file = opened(written.temporary, O_WRONLY | O_CREAT | O_TRUNC);
  const auto bytes = std::as_bytes(std::span(content));
  if (const int error = write_fully(file.get(), bytes, 0); error != 0) {
    ::unlink(written.temporary.c_str());
    throw_file_error("write", written.place, error);
  }
  return written;
}

void VectorFolder::write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) {
  std::vector<Written> files;
  std::set<std::string_view> hashes;
  for (const EmbeddedEvent& event : embedded) {
    if (!hashes.insert(event.hash).second) continue;
    files.push_back(put(timing, event.hash + ".json", timing_document(event)));
    files.push_back(put(vectors, event.hash + ".vec", vec_document(event)));
  }
  for (const RefusedEvent& event : refused) {
    if (hashes.insert(event.hash).second) files.push_back(put(rejected, event.hash + ".json", refusal_document(event)));
  }
  // One wait for the disk instead of one a file.
  const UniqueFd folder = opened(folder_, O_RDONLY | O_DIRECTORY);
  if (const int error = sync_file_system(folder.get()); error != 0) throw_file_error("write to", folder_, error);
  for (const Written& file : files) {
    if (const int error = rename_file(file.temporary, file.place); error != 0) {
      throw_file_error("write", file.place, error);
    }
  }
  for (const char* name : {timing, vectors, rejected}) {
    if (refused.empty() && name == rejected) continue;
    if (const int error = sync_folder(folder_ / name); error != 0) throw_file_error("write to", folder_ / name, error);
  }
}

}  // namespace gpux::daemon
