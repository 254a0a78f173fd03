#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace gpux::server {

/// A part of a POSIX shared memory object, under the name that a client has given it.
struct SharedRegionPlace {
  std::string name;
  std::string key;  ///< of the object: "/input"
  std::uint64_t offset = 0, byte_size = 0;

  bool operator==(const SharedRegionPlace&) const = default;
};

/// A registered region. It is read and written by calls of the system and never mapped: another process may shorten the
/// object at any time, which then is an error of a request, and no signal. Thread-safe.
class SharedRegion {
 public:
  SharedRegion(SharedRegionPlace place, UniqueFd object) : place_(std::move(place)), object_(std::move(object)) {}

  [[nodiscard]] const SharedRegionPlace& place() const noexcept { return place_; }

  /// Error invalid_input: the bytes from `offset` of the region on are not in it. Before anything is read.
  void require_within(std::uint64_t offset, std::uint64_t bytes) const;

  /// Errors invalid_input: as require_within(), or the object has become shorter.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;

 private:
  SharedRegionPlace place_;
  UniqueFd object_;
};

/// Where a tensor lies: a part of a region.
struct SharedRange {
  std::shared_ptr<const SharedRegion> region;
  std::uint64_t offset = 0, byte_size = 0;
};

/// The regions that clients have registered, as Triton's system shared memory extension has them
/// (extension_shared_memory.md). Thread-safe.
class SharedRegions {
 public:
  static constexpr std::size_t max_regions = 1024;
  static constexpr std::size_t max_name_bytes = 256;

  /// Objects whose names begin with `prefix` may be registered, which begins with a slash.
  explicit SharedRegions(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Errors invalid_input: the name is taken or too long, the key is none that may be used, the object is not there or
  /// shorter; permission; resource_exhausted: there are max_regions.
  void add(SharedRegionPlace place);

  /// Nothing where there is no such region. Requests that use it go on with it.
  void remove(std::string_view name);
  void remove_all();

  /// By name.
  [[nodiscard]] std::vector<SharedRegionPlace> all() const;

  /// Error invalid_input: there is no such region.
  [[nodiscard]] std::shared_ptr<const SharedRegion> find(std::string_view name) const;

 private:
  const std::string prefix_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const SharedRegion>, std::less<>> regions_;
};

/// Why a key is none of an object that may be registered; empty: it is one. Pure.
std::string object_name_problem(std::string_view key, std::string_view prefix);

}  // namespace gpux::server
