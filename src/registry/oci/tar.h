#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::oci {

/// A regular file in a tar archive.
struct TarEntry {
  std::string name;          ///< without a leading "./"
  std::uint64_t offset = 0;  ///< offset of its content in the archive
  std::uint64_t bytes = 0;
};

/// The regular files of a tar archive (ustar, with the long names and sizes of pax and GNU tar), without their
/// contents. Folders are left out. Error invalid_input if the archive is cut, damaged, compressed, has links, devices
/// or sparse files, a name twice, or more than 100,000 entries; the message begins with `name`.
std::vector<TarEntry> list_tar(std::span<const std::byte> archive, const std::string& name);

/// Writes a tar archive piece by piece (pax for what ustar cannot express). The same files give the same bytes.
class TarWriter {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  explicit TarWriter(Sink sink);

  void add(std::string_view name, std::string_view content);
  /// The caller hands over exactly `bytes` bytes through write(), then calls end_file().
  void begin_file(std::string_view name, std::uint64_t bytes);
  void write(std::span<const std::byte> content);
  void end_file();
  /// The end of the archive.
  void finish();

 private:
  void header(std::string_view name, std::uint64_t bytes, char type);

  Sink sink_;
  std::uint64_t left_ = 0;
  std::uint64_t padding_ = 0;
};

}  // namespace gpux::oci
