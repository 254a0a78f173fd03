#include "server/requests/shared_regions.h"

#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

std::string short_form(std::string_view text) {
  return std::string(utf8_prefix(text, 80));
}

UniqueFd open_object(const std::string& key) {
  UniqueFd object(::shm_open(key.c_str(), O_RDWR, 0));
  if (object) return object;
  const int failure = errno;
  const std::string message =
      fmt::format("the shared memory '{}' cannot be opened: {}", short_form(key), std::strerror(failure));
  throw Error(failure == EACCES ? ErrorCode::permission : ErrorCode::invalid_input, message);
}

std::uint64_t size_of(int object, const std::string& key) {
  struct stat status {};

  if (::fstat(object, &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse(fmt::format("'{}' is no shared memory", short_form(key)));
  }
  return static_cast<std::uint64_t>(status.st_size);
}

// Calls `transfer` for what is left, until all is done. `transfer`: as pread() and pwrite().
template <typename Byte, typename Transfer>
void transfer_all(std::span<Byte> bytes, std::uint64_t position, const std::string& name, const Transfer& transfer) {
  while (!bytes.empty()) {
    const ssize_t done = transfer(bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) refuse(fmt::format("shared memory region '{}': {}", name, std::strerror(errno)));
    if (done == 0) refuse(fmt::format("shared memory region '{}' has become shorter", name));
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    position += static_cast<std::uint64_t>(done);
  }
}

}  // namespace

std::string object_name_problem(std::string_view key, std::string_view prefix) {
  if (!key.starts_with('/') || key.size() < 2) return "begins with no slash, or is one alone";
  if (key.find('/', 1) != std::string_view::npos) return "has a second slash";
  if (key.find('\0') != std::string_view::npos) return "has a zero byte";
  if (key == "/." || key == "/..") return "is no name";
  constexpr std::size_t max_key_bytes = 255;
  if (key.size() > max_key_bytes) return fmt::format("has more than {} bytes", max_key_bytes);
  if (!key.starts_with(prefix)) return fmt::format("does not begin with '{}', as this server requires", prefix);
  return {};
}

void SharedRegion::require_within(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset <= place_.byte_size && bytes <= place_.byte_size - offset) return;
  refuse(fmt::format("shared memory region '{}' has {} bytes, and {} from byte {} on are asked for", place_.name,
                     place_.byte_size, bytes, offset));
}

void SharedRegion::read(std::uint64_t offset, std::span<std::byte> into) const {
  require_within(offset, into.size());
  transfer_all(into, place_.offset + offset, place_.name, [&](std::byte* to, std::size_t size, off_t position) {
    return ::pread(object_.get(), to, size, position);
  });
}

void SharedRegion::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  require_within(offset, bytes.size());

  // What was cut off is not made anew.
  struct stat status {};

  if (::fstat(object_.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) < place_.offset + offset + bytes.size()) {
    refuse(fmt::format("shared memory region '{}' has become shorter", place_.name));
  }
  transfer_all(bytes, place_.offset + offset, place_.name,
               [&](const std::byte* from, std::size_t size, off_t position) {
                 return ::pwrite(object_.get(), from, size, position);
               });
}

void SharedRegions::add(SharedRegionPlace place) {
  if (place.name.empty() || place.name.size() > max_name_bytes) {
    refuse(fmt::format("a region's name has 1 to {} bytes", max_name_bytes));
  }
  if (const std::string problem = object_name_problem(place.key, prefix_); !problem.empty()) {
    refuse(fmt::format("key '{}' {}", short_form(place.key), problem));
  }
  UniqueFd object = open_object(place.key);
  const std::uint64_t size = size_of(object.get(), place.key);
  if (place.byte_size == 0 || place.offset > size || place.byte_size > size - place.offset) {
    refuse(fmt::format("the shared memory '{}' has {} bytes, and {} from byte {} on are asked for",
                       short_form(place.key), size, place.byte_size, place.offset));
  }
  const std::string name = place.name;
  auto region = std::make_shared<const SharedRegion>(std::move(place), std::move(object));
  const std::lock_guard lock(mutex_);
  if (regions_.contains(name)) {
    refuse(fmt::format("there is a shared memory region '{}' already: unregister it first", short_form(name)));
  }
  if (regions_.size() >= max_regions) {
    throw Error(ErrorCode::resource_exhausted, fmt::format("there are {} shared memory regions", max_regions));
  }
  regions_.emplace(name, std::move(region));
}

void SharedRegions::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = regions_.find(name); found != regions_.end()) regions_.erase(found);
}

void SharedRegions::remove_all() {
  const std::lock_guard lock(mutex_);
  regions_.clear();
}

std::vector<SharedRegionPlace> SharedRegions::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedRegionPlace> places;
  for (const auto& [name, region] : regions_) places.push_back(region->place());
  return places;
}

std::shared_ptr<const SharedRegion> SharedRegions::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) refuse(fmt::format("there is no shared memory region '{}'", short_form(name)));
  return found->second;
}

}  // namespace gpux::server
