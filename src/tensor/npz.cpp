#include "tensor/npz.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <zlib.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "tensor/json_text.h"
#include "tensor/npy.h"

namespace gpux {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;
constexpr std::uint16_t zip64_tag = 1;
constexpr std::uint16_t zip64_version = 45;
constexpr std::uint16_t utf8_flag = 1U << 11;
constexpr std::uint16_t stored = 0;
constexpr std::uint16_t deflated = 8;
constexpr std::uint32_t see_zip64 = 0xffffffff;  // a 32-bit field whose value stands in the zip64 record
constexpr std::string_view extension = ".npy";

[[noreturn]] void refuse(std::string_view message) {
  throw Error(ErrorCode::invalid_input, fmt::format("npz: {}", message));
}

std::string in_quotes(std::string_view name) {
  return json_excerpt('"' + std::string(name) + '"');
}

// Little-endian fields one after another.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  Number next() {
    Number number = 0;
    const std::span<const std::byte> field = take(sizeof(Number));
    std::memcpy(&number, field.data(), sizeof(Number));
    return number;
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) refuse("the archive is cut off or damaged");
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  [[nodiscard]] bool done() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

std::span<const std::byte> part(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t size) {
  Fields fields(file);
  fields.take(offset);
  return fields.take(size);
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

constexpr std::size_t end_bytes = 22;

// The end record stands before a comment of unknown length, whose length must then fit.
std::size_t find_end_record(std::span<const std::byte> file) {
  constexpr std::size_t longest_comment = 0xffff;
  for (std::size_t comment = 0; comment <= longest_comment && comment + end_bytes <= file.size(); ++comment) {
    const std::size_t offset = file.size() - end_bytes - comment;
    const bool found = Fields(file.subspan(offset)).next<std::uint32_t>() == end_signature &&
                       Fields(file.subspan(offset + end_bytes - 2)).next<std::uint16_t>() == comment;
    if (found) return offset;
  }
  refuse("this is no zip archive, or its end is missing");
}

Directory read_end64(std::span<const std::byte> file, std::size_t end_offset) {
  constexpr std::size_t locator_bytes = 20;
  constexpr std::size_t end64_bytes = 56;
  if (end_offset < locator_bytes) refuse("the zip64 record is missing");
  Fields locator(file.subspan(end_offset - locator_bytes));
  if (locator.next<std::uint32_t>() != locator64_signature) refuse("the zip64 record is missing");
  locator.take(4);
  Fields end(part(file, locator.next<std::uint64_t>(), end64_bytes));
  if (end.next<std::uint32_t>() != end64_signature) refuse("the zip64 record is missing");
  end.take(28);
  Directory directory;
  directory.entries = end.next<std::uint64_t>();
  directory.bytes = end.next<std::uint64_t>();
  directory.offset = end.next<std::uint64_t>();
  return directory;
}

Directory find_directory(std::span<const std::byte> file) {
  const std::size_t end_offset = find_end_record(file);
  Fields end(file.subspan(end_offset + 4));
  const auto disk = end.next<std::uint16_t>();
  end.take(4);
  Directory directory;
  directory.entries = end.next<std::uint16_t>();
  directory.bytes = end.next<std::uint32_t>();
  directory.offset = end.next<std::uint32_t>();
  if (directory.entries == 0xffff || directory.bytes == see_zip64 || directory.offset == see_zip64) {
    return read_end64(file, end_offset);
  }
  if (disk != 0) refuse("archives in several parts are not read");
  return directory;
}

struct Member {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t checksum = 0;
  std::uint64_t packed_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t local_offset = 0;
};

// Fields that 32 bits cannot hold follow in the zip64 record, in this order and only as far as they are needed.
void read_zip64_fields(std::span<const std::byte> extra, Member& member) {
  Fields records(extra);
  while (!records.done()) {
    const auto tag = records.next<std::uint16_t>();
    Fields record(records.take(records.next<std::uint16_t>()));
    if (tag != zip64_tag) continue;
    for (std::uint64_t* field : {&member.bytes, &member.packed_bytes, &member.local_offset}) {
      if (*field == see_zip64) *field = record.next<std::uint64_t>();
    }
    return;
  }
}

Member read_member(Fields& directory) {
  if (directory.next<std::uint32_t>() != central_signature) refuse("the archive's directory is damaged");
  directory.take(4);
  Member member;
  member.flags = directory.next<std::uint16_t>();
  member.method = directory.next<std::uint16_t>();
  directory.take(4);
  member.checksum = directory.next<std::uint32_t>();
  member.packed_bytes = directory.next<std::uint32_t>();
  member.bytes = directory.next<std::uint32_t>();
  const auto name_bytes = directory.next<std::uint16_t>();
  const auto extra_bytes = directory.next<std::uint16_t>();
  const auto comment_bytes = directory.next<std::uint16_t>();
  directory.take(8);
  member.local_offset = directory.next<std::uint32_t>();
  const std::span<const std::byte> name = directory.take(name_bytes);
  member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  read_zip64_fields(directory.take(extra_bytes), member);
  directory.take(comment_bytes);
  return member;
}

std::vector<Member> read_directory(std::span<const std::byte> file) {
  const Directory directory = find_directory(file);
  Fields fields(part(file, directory.offset, directory.bytes));
  std::vector<Member> members;
  while (!fields.done()) members.push_back(read_member(fields));
  if (members.size() != directory.entries) {
    refuse(fmt::format("{} members are announced, {} are listed", directory.entries, members.size()));
  }
  return members;
}

void require_readable(const Member& member) {
  constexpr std::uint64_t best_ratio = 1032;  // of deflate
  constexpr std::uint16_t encrypted_flag = 1;
  const std::string name = in_quotes(member.name);
  if (!member.name.ends_with(extension)) refuse(fmt::format("the member {} is not a .npy file", name));
  if ((member.flags & encrypted_flag) != 0) refuse(fmt::format("the member {} is encrypted", name));
  if (member.method != stored && member.method != deflated) {
    refuse(
        fmt::format("the member {} is packed by method {}: stored (0) and deflated (8) are read", name, member.method));
  }
  const bool possible =
      member.method == stored ? member.bytes == member.packed_bytes : member.bytes / best_ratio <= member.packed_bytes;
  if (!possible) {
    refuse(fmt::format("the member {} claims {} bytes, which {} packed ones cannot give", name, member.bytes,
                       member.packed_bytes));
  }
}

std::span<const std::byte> packed_data(std::span<const std::byte> file, const Member& member) {
  constexpr std::size_t local_bytes = 30;
  Fields local(part(file, member.local_offset, local_bytes));
  if (local.next<std::uint32_t>() != local_signature) {
    refuse(fmt::format("the member {} is not where the directory says", in_quotes(member.name)));
  }
  local.take(22);
  const std::uint64_t name_bytes = local.next<std::uint16_t>();
  const std::uint64_t extra_bytes = local.next<std::uint16_t>();
  Fields rest(file.subspan(member.local_offset + local_bytes));
  rest.take(name_bytes + extra_bytes);
  return rest.take(member.packed_bytes);
}

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw Error(ErrorCode::resource_exhausted, "npz: no memory");
  }

  ~Inflater() { inflateEnd(&stream_); }

  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Whether `packed` gives exactly the bytes that fill `out`.
  bool fill(std::span<const std::byte> packed, std::span<std::byte> out) {
    std::byte beyond{};  // zlib wants to see the end of the stream even where nothing more comes out
    int status = Z_OK;
    while (status == Z_OK) {
      const uInt given = next_piece(packed.size());
      const uInt wanted = out.empty() ? 1 : next_piece(out.size());
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
      stream_.avail_in = given;
      stream_.next_out = reinterpret_cast<Bytef*>(out.empty() ? &beyond : out.data());
      stream_.avail_out = wanted;
      status = inflate(&stream_, Z_NO_FLUSH);
      if (out.empty() && stream_.avail_out == 0) return false;
      packed = packed.subspan(given - stream_.avail_in);
      if (!out.empty()) out = out.subspan(wanted - stream_.avail_out);
    }
    return status == Z_STREAM_END && packed.empty() && out.empty();
  }

 private:
  static uInt next_piece(std::size_t size) {
    return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
  }

  z_stream stream_{};
};

struct Content {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

Content unpacked(std::span<const std::byte> file, const Member& member, const std::shared_ptr<const void>& owner) {
  const std::span<const std::byte> packed = packed_data(file, member);
  Content content{packed, owner};
  if (member.method == deflated) {
    auto buffer =
        std::make_shared<Tensor>(Tensor::allocate(ElementType::uint8, {static_cast<std::int64_t>(member.bytes)}));
    if (!Inflater().fill(packed, buffer->mutable_bytes())) {
      refuse(fmt::format("the member {} is damaged: it does not unpack to {} bytes", in_quotes(member.name),
                         member.bytes));
    }
    content = {buffer->bytes(), buffer};
  }
  const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(content.bytes.data()), content.bytes.size());
  if (checksum != member.checksum)
    refuse(fmt::format("the member {} is damaged: wrong checksum", in_quotes(member.name)));
  return content;
}

// Writing.

template <typename Number>
void append_field(std::string& out, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out += static_cast<char>((static_cast<std::uint64_t>(number) >> (8 * i)) & 0xffU);
  }
}

constexpr std::uint16_t date_1980_01_01 = 0x21;
constexpr std::uint16_t on_unix = 3U << 8;
constexpr std::uint32_t readable_file = 0100644U << 16;

// What the local and the central header have in common, up to the sizes, which stand in the zip64 record.
void append_shared_fields(std::string& out, std::uint32_t checksum, std::size_t name_bytes, std::uint16_t extra_bytes) {
  append_field<std::uint16_t>(out, zip64_version);
  append_field<std::uint16_t>(out, utf8_flag);
  append_field<std::uint16_t>(out, stored);
  append_field<std::uint16_t>(out, 0);
  append_field<std::uint16_t>(out, date_1980_01_01);
  append_field<std::uint32_t>(out, checksum);
  append_field<std::uint32_t>(out, see_zip64);
  append_field<std::uint32_t>(out, see_zip64);
  append_field<std::uint16_t>(out, static_cast<std::uint16_t>(name_bytes));
  append_field<std::uint16_t>(out, extra_bytes);
}

std::string local_header(const Member& member) {
  constexpr std::uint16_t record_bytes = 16;
  std::string out;
  append_field<std::uint32_t>(out, local_signature);
  append_shared_fields(out, member.checksum, member.name.size(), record_bytes + 4);
  out += member.name;
  append_field<std::uint16_t>(out, zip64_tag);
  append_field<std::uint16_t>(out, record_bytes);
  append_field<std::uint64_t>(out, member.bytes);
  append_field<std::uint64_t>(out, member.bytes);
  return out;
}

void append_central_header(std::string& out, const Member& member) {
  constexpr std::uint16_t record_bytes = 24;
  append_field<std::uint32_t>(out, central_signature);
  append_field<std::uint16_t>(out, on_unix | zip64_version);
  append_shared_fields(out, member.checksum, member.name.size(), record_bytes + 4);
  append_field<std::uint16_t>(out, 0);  // comment
  append_field<std::uint16_t>(out, 0);  // disk
  append_field<std::uint16_t>(out, 0);  // not text
  append_field<std::uint32_t>(out, readable_file);
  append_field<std::uint32_t>(out, see_zip64);
  out += member.name;
  append_field<std::uint16_t>(out, zip64_tag);
  append_field<std::uint16_t>(out, record_bytes);
  append_field<std::uint64_t>(out, member.bytes);
  append_field<std::uint64_t>(out, member.bytes);
  append_field<std::uint64_t>(out, member.local_offset);
}

void append_end_records(std::string& out, std::uint64_t directory_offset, std::uint64_t entries) {
  constexpr std::uint64_t end64_rest_bytes = 44;
  const std::uint64_t end64_offset = out.size();
  append_field<std::uint32_t>(out, end64_signature);
  append_field<std::uint64_t>(out, end64_rest_bytes);
  append_field<std::uint16_t>(out, on_unix | zip64_version);
  append_field<std::uint16_t>(out, zip64_version);
  append_field<std::uint64_t>(out, 0);  // disks
  append_field<std::uint64_t>(out, entries);
  append_field<std::uint64_t>(out, entries);
  append_field<std::uint64_t>(out, end64_offset - directory_offset);
  append_field<std::uint64_t>(out, directory_offset);

  append_field<std::uint32_t>(out, locator64_signature);
  append_field<std::uint32_t>(out, 0);
  append_field<std::uint64_t>(out, end64_offset);
  append_field<std::uint32_t>(out, 1);

  append_field<std::uint32_t>(out, end_signature);
  append_field<std::uint32_t>(out, 0);  // disks
  append_field<std::uint16_t>(out, 0xffff);
  append_field<std::uint16_t>(out, 0xffff);
  append_field<std::uint32_t>(out, see_zip64);
  append_field<std::uint32_t>(out, see_zip64);
  append_field<std::uint16_t>(out, 0);
}

Member append_member(std::string& out, const NamedTensor& named) {
  constexpr std::size_t longest_name = 0xffff;
  Member member;
  member.name = named.first + std::string(extension);
  if (member.name.size() > longest_name) refuse(fmt::format("the name {} is too long", in_quotes(named.first)));
  member.local_offset = out.size();
  const std::size_t header_bytes = local_header(member).size();
  out.append(header_bytes, '\0');
  const std::size_t first = out.size();
  append_npy(out, named.second);
  member.bytes = out.size() - first;
  member.checksum =
      static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(out.data() + first), member.bytes));
  out.replace(member.local_offset, header_bytes, local_header(member));
  return member;
}

}  // namespace

std::vector<NamedTensor> read_npz(std::span<const std::byte> file, const NpzReading& reading) {
  std::vector<NamedTensor> tensors;
  std::set<std::string, std::less<>> names;
  std::uint64_t total_bytes = 0;
  for (const Member& member : read_directory(file)) {
    require_readable(member);
    if (!names.insert(member.name).second) refuse(fmt::format("two members are named {}", in_quotes(member.name)));
    if (member.bytes > reading.limit_bytes - total_bytes) {
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("npz: the arrays take more than the {} bytes allowed", reading.limit_bytes));
    }
    total_bytes += member.bytes;
    std::string name = member.name.substr(0, member.name.size() - extension.size());
    const auto declared = reading.declared ? reading.declared(name) : std::nullopt;
    const Content content = unpacked(file, member, reading.owner);
    try {
      tensors.emplace_back(name, read_npy(content.bytes, declared, content.owner));
    } catch (const Error& error) {
      throw error.within("array " + in_quotes(name));
    }
  }
  return tensors;
}

std::string write_npz(std::span<const NamedTensor> tensors) {
  std::size_t total_bytes = 0;
  for (const NamedTensor& named : tensors) total_bytes += named.second.byte_size();
  std::string out;
  constexpr std::size_t usual_headers = 512;
  out.reserve(total_bytes + tensors.size() * usual_headers);
  std::vector<Member> members;
  std::set<std::string, std::less<>> names;
  for (const NamedTensor& named : tensors) {
    if (!names.insert(named.first).second) refuse(fmt::format("two tensors are named {}", in_quotes(named.first)));
    members.push_back(append_member(out, named));
  }
  const std::uint64_t directory_offset = out.size();
  for (const Member& member : members) append_central_header(out, member);
  append_end_records(out, directory_offset, members.size());
  return out;
}

}  // namespace gpux
