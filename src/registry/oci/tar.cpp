#include "registry/oci/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

constexpr std::size_t block_bytes = 512;
constexpr std::size_t limit_entries = 100'000;
constexpr std::size_t limit_extension_bytes = std::size_t{1} << 20;

// The fields of a header, by offset and size.
struct Field {
  std::size_t offset, size;
};

constexpr Field name_field{0, 100}, mode_field{100, 8}, owner_field{108, 8}, group_field{116, 8}, size_field{124, 12},
    time_field{136, 12}, checksum_field{148, 8}, type_field{156, 1}, magic_field{257, 6}, version_field{263, 2},
    prefix_field{345, 155};

using Block = std::span<const std::byte>;

std::string_view text_of(Block bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view field_of(Block header, Field field) {
  const std::string_view text = text_of(header).substr(field.offset, field.size);
  return text.substr(0, text.find('\0'));
}

/// An octal number, or one in base 256 as GNU tar writes large ones.
std::optional<std::uint64_t> number_of(Block header, Field field) {
  const Block bytes = header.subspan(field.offset, field.size);
  constexpr std::byte base256{0x80};
  if (bytes.front() == base256) {
    std::uint64_t number = 0;
    for (const std::byte digit : bytes.subspan(1)) {
      if (number >> 56U != 0) return std::nullopt;
      number = number << 8U | std::to_integer<std::uint64_t>(digit);
    }
    return number;
  }
  std::string_view text = field_of(header, field);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return 0;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::uint64_t checksum_of(Block header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block_bytes; ++i) {
    const bool own = i >= checksum_field.offset && i < checksum_field.offset + checksum_field.size;
    sum += own ? static_cast<std::uint64_t>(' ') : std::to_integer<std::uint64_t>(header[i]);
  }
  return sum;
}

bool is_zero(Block block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// What an extended header says about the next entry.
struct Extension {
  std::string name;
  std::optional<std::uint64_t> bytes;
};

class Reader {
 public:
  Reader(Block archive, const std::string& name) : archive_(archive), name_(name) {}

  std::vector<TarEntry> read() {
    refuse_compressed();
    while (at_ + block_bytes <= archive_.size()) {
      const Block header = archive_.subspan(at_, block_bytes);
      if (is_zero(header)) return std::move(entries_);
      read_entry(header);
    }
    if (at_ == 0) fail("it is too short for a tar archive");
    fail("it is cut: the end of the archive is missing");
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorCode::invalid_input, fmt::format("{} cannot be read: {}", name_, why));
  }

  void refuse_compressed() const {
    struct Magic {
      std::string_view bytes, kind;
    };

    constexpr std::array<Magic, 4> magics{{{"\x1f\x8b", "gzip"},
                                           {"\x28\xb5\x2f\xfd", "zstd"},
                                           {"\xfd"
                                            "7zXZ",
                                            "xz"},
                                           {"BZh", "bzip2"}}};
    for (const Magic& magic : magics) {
      if (!text_of(archive_).starts_with(magic.bytes)) continue;
      fail(fmt::format("it is compressed with {}; decompress it first", magic.kind));
    }
  }

  void read_entry(Block header) {
    if (++count_ > limit_entries) fail(fmt::format("it has more than {} entries", limit_entries));
    const std::optional<std::uint64_t> sum = number_of(header, checksum_field);
    if (!sum || *sum != checksum_of(header)) {
      fail(at_ == 0 ? "it is not a tar archive" : fmt::format("the header at byte {} is damaged", at_));
    }
    const std::optional<std::uint64_t> stated = number_of(header, size_field);
    if (!stated) fail(fmt::format("the header at byte {} has no size", at_));
    const char type = static_cast<char>(header[type_field.offset]);
    const bool is_extension = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const std::uint64_t bytes = is_extension ? *stated : next_.bytes.value_or(*stated);
    const std::uint64_t content = at_ + block_bytes;
    if (bytes > archive_.size() - content) fail(fmt::format("the entry at byte {} is cut", at_));
    if (is_extension) {
      read_extension(type, archive_.subspan(content, bytes));
    } else {
      add(header, type, content, bytes);
      next_ = {};
    }
    at_ = std::min<std::uint64_t>(content + padded(bytes), archive_.size());
  }

  void read_extension(char type, Block content) {
    if (content.size() > limit_extension_bytes) fail("an extended header has more than 1 MiB");
    std::string_view text = text_of(content);
    if (type == 'L') next_.name = text.substr(0, text.find('\0'));
    if (type == 'x') read_pax(text);
    // 'g' is for all entries that follow: a name or a size in it would be nonsense. 'K' is the target of a link.
  }

  // "LENGTH KEY=VALUE\n", where the length counts itself.
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      const bool is_whole = error == std::errc() && length > digits + 1 && length <= text.size() &&
                            text[digits] == ' ' && text[length - 1] == '\n';
      if (!is_whole) fail("an extended header is damaged");
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      const std::size_t equals = record.find('=');
      if (equals == std::string_view::npos) fail("an extended header is damaged");
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key.starts_with("GNU.sparse.")) fail("it has a sparse file");
      if (key == "path") next_.name = value;
      if (key == "size") {
        std::uint64_t bytes = 0;
        const auto [number_end, bad] = std::from_chars(value.data(), value.data() + value.size(), bytes);
        if (bad != std::errc() || number_end != value.data() + value.size())
          fail("an extended header has a wrong size");
        next_.bytes = bytes;
      }
      text.remove_prefix(length);
    }
  }

  std::string name_of(Block header) const {
    std::string name = next_.name;
    if (name.empty()) {
      name = field_of(header, name_field);
      const bool is_ustar = text_of(header).substr(magic_field.offset, 5) == "ustar";
      // GNU tar keeps times where ustar has the prefix: its magic is "ustar  ".
      const bool is_gnu = text_of(header).substr(magic_field.offset, magic_field.size) == "ustar ";
      const std::string_view prefix = is_ustar && !is_gnu ? field_of(header, prefix_field) : std::string_view{};
      if (!prefix.empty()) name = fmt::format("{}/{}", prefix, name);
    }
    while (name.starts_with("./")) name.erase(0, 2);
    return name;
  }

  void add(Block header, char type, std::uint64_t offset, std::uint64_t bytes) {
    std::string name = name_of(header);
    if (type == '5') return;
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (!is_file) fail(fmt::format("{} is a link, a device or another special file", in_quotes(name)));
    if (name.ends_with('/')) return;  // a folder of an archive from before POSIX
    if (!names_.insert(name).second) fail(fmt::format("it holds {} twice", in_quotes(name)));
    entries_.push_back({std::move(name), offset, bytes});
  }

  Block archive_;
  const std::string& name_;
  std::uint64_t at_ = 0;
  std::size_t count_ = 0;
  Extension next_;
  std::vector<TarEntry> entries_;
  std::set<std::string> names_;
};

void put(std::array<char, block_bytes>& header, Field field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), field.size),
              header.begin() + static_cast<std::ptrdiff_t>(field.offset));
}

constexpr std::uint64_t limit_ustar_bytes = std::uint64_t{1} << 33U;

std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

std::vector<TarEntry> list_tar(std::span<const std::byte> archive, const std::string& name) {
  return Reader(archive, name).read();
}

TarWriter::TarWriter(Sink sink) : sink_(std::move(sink)) {}

void TarWriter::header(std::string_view name, std::uint64_t bytes, char type) {
  std::array<char, block_bytes> header{};
  put(header, name_field, name);
  put(header, mode_field, "0000644");
  put(header, owner_field, "0000000");
  put(header, group_field, "0000000");
  put(header, size_field, fmt::format("{:011o}", bytes < limit_ustar_bytes ? bytes : 0));
  put(header, time_field, "00000000000");
  header[type_field.offset] = type;
  put(header, magic_field, "ustar");
  put(header, version_field, "00");
  const std::uint64_t sum = checksum_of(std::as_bytes(std::span(header)));
  put(header, checksum_field, fmt::format("{:06o}", sum));
  header[checksum_field.offset + 7] = ' ';
  sink_(std::as_bytes(std::span(header)));
}

void TarWriter::begin_file(std::string_view name, std::uint64_t bytes) {
  std::string extension;
  if (name.size() > name_field.size) extension += pax_record("path", name);
  if (bytes >= limit_ustar_bytes) extension += pax_record("size", std::to_string(bytes));
  if (!extension.empty()) {
    header("PaxHeader", extension.size(), 'x');
    extension.resize(padded(extension.size()), '\0');
    sink_(std::as_bytes(std::span(extension)));
  }
  header(name, bytes, '0');
  left_ = bytes;
  padding_ = padded(bytes) - bytes;
}

void TarWriter::write(std::span<const std::byte> content) {
  if (content.size() > left_)
    throw Error(ErrorCode::internal, "a file of a tar archive is longer than its header says");
  left_ -= content.size();
  sink_(content);
}

void TarWriter::end_file() {
  if (left_ != 0) throw Error(ErrorCode::internal, "a file of a tar archive is shorter than its header says");
  constexpr std::array<std::byte, block_bytes> zeros{};
  sink_(std::span(zeros).first(padding_));
}

void TarWriter::add(std::string_view name, std::string_view content) {
  begin_file(name, content.size());
  write(std::as_bytes(std::span(content)));
  end_file();
}

void TarWriter::finish() {
  constexpr std::array<std::byte, 2 * block_bytes> zeros{};
  sink_(zeros);
}

}  // namespace gpux::oci
