#include "importer/gguf/gguf_file.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "GGUF";
constexpr std::size_t max_dimensions = 4;
constexpr std::uint64_t max_key_bytes = 65535, max_name_bytes = 1024;
// More would be no model, and would take long to go through.
constexpr std::uint64_t max_keys = std::uint64_t{1} << 16, max_tensors = std::uint64_t{1} << 17;
constexpr std::uint64_t max_list = std::uint64_t{1} << 24;
constexpr std::uint64_t default_alignment = 32, max_alignment = std::uint64_t{1} << 20;

constexpr std::string_view alignment_key = "general.alignment", split_count_key = "split.count",
                           split_number_key = "split.no", split_tensors_key = "split.tensors.count";

Error broken(std::string_view why) {
  return {ErrorCode::invalid_model, std::string(why)};
}

enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  list = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Reads from the beginning of the bytes on. Error invalid_model where they end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }

  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view text(std::uint64_t max_bytes, std::string_view what) {
    const auto size = number<std::uint64_t>();
    if (size > max_bytes || size > remaining())
      throw broken(fmt::format("{} is longer than the file or the limit", what));
    return take(static_cast<std::size_t>(size));
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > remaining()) throw broken("it ends early");
    const std::string_view taken = bytes_.substr(position_, size);
    position_ += size;
    return taken;
  }

  std::string_view bytes_;
  std::size_t position_ = 0;
};

template <typename T>
Value whole(T value) {
  if (std::in_range<std::int64_t>(value)) return static_cast<std::int64_t>(value);
  return static_cast<double>(value);
}

bool read_flag(Reader& reader) {
  const auto byte = reader.number<std::uint8_t>();
  if (byte > 1) throw broken(fmt::format("a flag is {}; accepted: 0, 1", byte));
  return byte == 1;
}

constexpr std::uint64_t any_size = std::numeric_limits<std::uint64_t>::max();

// The smallest element of a list, so that a count is known to fit before anything is reserved.
std::size_t min_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::text:
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::list:
      break;
  }
  return 0;
}

template <typename Element, typename ReadElement>
std::vector<Element> read_elements_of(std::uint64_t count, ReadElement read) {
  std::vector<Element> elements;
  elements.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) elements.push_back(read());
  return elements;
}

template <typename T>
Value read_integers(Reader& reader, std::uint64_t count) {
  return read_elements_of<std::int64_t>(count, [&] {
    const auto value = reader.number<T>();
    if (!std::in_range<std::int64_t>(value)) throw broken("a list has a number above the largest of 63 bits");
    return static_cast<std::int64_t>(value);
  });
}

Value read_list(Reader& reader) {
  const auto type = static_cast<ValueType>(reader.number<std::uint32_t>());
  const auto count = reader.number<std::uint64_t>();
  const std::size_t least = min_bytes(type);
  if (least == 0) {
    throw broken(fmt::format("it is a list of type {}; lists of numbers, flags and texts are read",
                             static_cast<std::uint32_t>(type)));
  }
  if (count > max_list || count > reader.remaining() / least)
    throw broken("it has more elements than the file or the limit");
  switch (type) {
    case ValueType::u8:
      return read_integers<std::uint8_t>(reader, count);
    case ValueType::i8:
      return read_integers<std::int8_t>(reader, count);
    case ValueType::u16:
      return read_integers<std::uint16_t>(reader, count);
    case ValueType::i16:
      return read_integers<std::int16_t>(reader, count);
    case ValueType::u32:
      return read_integers<std::uint32_t>(reader, count);
    case ValueType::i32:
      return read_integers<std::int32_t>(reader, count);
    case ValueType::u64:
      return read_integers<std::uint64_t>(reader, count);
    case ValueType::i64:
      return read_integers<std::int64_t>(reader, count);
    case ValueType::f32:
      return read_elements_of<double>(count, [&] { return static_cast<double>(reader.number<float>()); });
    case ValueType::f64:
      return read_elements_of<double>(count, [&] { return reader.number<double>(); });
    case ValueType::boolean:
      return read_elements_of<bool>(count, [&] { return read_flag(reader); });
    case ValueType::text:
      return read_elements_of<std::string_view>(count, [&] { return reader.text(any_size, "a text of it"); });
    case ValueType::list:
      break;
  }
  throw broken("it is a list of lists");
}

Value read_value(Reader& reader) {
  const auto type = reader.number<std::uint32_t>();
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return whole(reader.number<std::uint8_t>());
    case ValueType::i8:
      return whole(reader.number<std::int8_t>());
    case ValueType::u16:
      return whole(reader.number<std::uint16_t>());
    case ValueType::i16:
      return whole(reader.number<std::int16_t>());
    case ValueType::u32:
      return whole(reader.number<std::uint32_t>());
    case ValueType::i32:
      return whole(reader.number<std::int32_t>());
    case ValueType::u64:
      return whole(reader.number<std::uint64_t>());
    case ValueType::i64:
      return whole(reader.number<std::int64_t>());
    case ValueType::f32:
      return static_cast<double>(reader.number<float>());
    case ValueType::f64:
      return reader.number<double>();
    case ValueType::boolean:
      return read_flag(reader);
    case ValueType::text:
      return reader.text(any_size, "it");
    case ValueType::list:
      return read_list(reader);
  }
  throw broken(fmt::format("its type is {}; accepted: 0 to 12", type));
}

struct Header {
  std::uint64_t tensors = 0, keys = 0;
};

Header read_header(Reader& reader) {
  if (reader.remaining() < magic.size() + sizeof(std::uint32_t)) throw broken("it is too short");
  (void)reader.number<std::uint32_t>();  // the magic, seen by the caller
  const auto version = reader.number<std::uint32_t>();
  if ((version & 0xffffU) == 0 && version != 0) throw broken("it is big-endian; little-endian files are read");
  if (version != 2 && version != 3) throw broken(fmt::format("its version is {}; accepted: 2, 3", version));
  Header header{.tensors = reader.number<std::uint64_t>(), .keys = reader.number<std::uint64_t>()};
  if (header.keys > max_keys) throw broken(fmt::format("it has {} keys; at most {} are read", header.keys, max_keys));
  if (header.tensors > max_tensors) {
    throw broken(fmt::format("it has {} tensors; at most {} are read", header.tensors, max_tensors));
  }
  return header;
}

Metadata read_metadata(Reader& reader, std::uint64_t keys) {
  Metadata metadata;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string_view key = reader.text(max_key_bytes, "a key");
    if (key.empty() || !is_utf8(key)) throw broken(fmt::format("the key {} is no text", onnx::quote(key)));
    try {
      if (metadata.add(key, read_value(reader))) continue;
    } catch (const Error& error) {
      throw error.within(fmt::format("the value of {}", onnx::quote(key)));
    }
    throw broken(fmt::format("it has the key {} twice", onnx::quote(key)));
  }
  return metadata;
}

/// A tensor as its file describes it.
struct Described {
  std::string_view name;
  TensorType type{};
  Shape shape;
  std::uint64_t offset = 0, bytes = 0;
};

Described read_description(Reader& reader) {
  Described tensor;
  tensor.name = reader.text(max_name_bytes, "a tensor's name");
  if (tensor.name.empty() || !is_utf8(tensor.name)) {
    throw broken(fmt::format("the tensor's name {} is no text", onnx::quote(tensor.name)));
  }
  const auto refuse = [&](std::string_view why) { return broken(fmt::format("{} {}", onnx::quote(tensor.name), why)); };
  const auto dimensions = reader.number<std::uint32_t>();
  if (dimensions > max_dimensions) throw refuse(fmt::format("has {} dimensions; at most 4 are read", dimensions));
  constexpr std::uint64_t max_elements = std::uint64_t{1} << 40;
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = reader.number<std::uint64_t>();
    if (size > max_elements || (size != 0 && elements > max_elements / size)) throw refuse("is too large");
    elements *= size;
    // ggml begins with the contiguous one.
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  const auto number = reader.number<std::uint32_t>();
  tensor.offset = reader.number<std::uint64_t>();
  const TypeFacts* facts = find_type(number);
  if (facts == nullptr || !facts->is_read) {
    throw refuse(fmt::format("has type {}; accepted: {}",
                             facts == nullptr ? fmt::format("{}", number) : std::string(facts->name),
                             read_type_names()));
  }
  tensor.type = static_cast<TensorType>(number);
  const auto row = static_cast<std::uint64_t>(tensor.shape.empty() ? 1 : tensor.shape.back());
  if (row % facts->block_elements != 0) {
    throw refuse(fmt::format("has rows of {} elements, which are no whole blocks of {}", row, facts->name));
  }
  tensor.bytes = elements / facts->block_elements * facts->block_bytes;
  return tensor;
}

std::uint64_t alignment_in(const Metadata& metadata) {
  const std::optional<std::int64_t> alignment = metadata.count(alignment_key);
  if (!alignment) return default_alignment;
  const auto value = static_cast<std::uint64_t>(*alignment);
  if (!std::has_single_bit(value) || value > max_alignment)
    metadata.refuse(alignment_key, "a power of 2 up to 1048576");
  return value;
}

// "model-00001-of-00003.gguf": the name of another part; empty where `file` is not named so.
std::optional<fs::path> part_beside(const fs::path& file, std::int64_t number, std::int64_t count) {
  const std::string name = file.filename().string();
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - ending.size());
  return file.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, number, count);
}

}  // namespace

bool is_gguf_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  std::ifstream stream(file, std::ios::binary);
  std::string begin(magic.size(), '\0');
  return stream.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == magic;
}

Metadata read_first_metadata(std::string_view first_bytes) {
  if (!first_bytes.starts_with(magic)) throw broken("it is no GGUF file");
  Reader reader(first_bytes);
  const Header header = read_header(reader);
  Metadata metadata;
  try {
    for (std::uint64_t i = 0; i < header.keys; ++i) {
      const std::string_view key = reader.text(max_key_bytes, "a key");
      metadata.add(key, read_value(reader));
    }
  } catch (const Error&) {
    return metadata;  // the bytes end, or the whole file is refused for the same
  }
  return metadata;
}

std::int64_t StoredTensor::rows() const noexcept {
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

std::int64_t StoredTensor::row_elements() const noexcept {
  return shape.empty() ? 1 : shape.back();
}

GgufFile::GgufFile(const fs::path& file) : name_(file.filename().string()) {
  read_part(file, true);
  const std::int64_t parts = metadata_.count(split_count_key).value_or(1);
  constexpr std::int64_t max_parts = 99999;
  if (parts > max_parts) metadata_.refuse(split_count_key, "up to 99999 parts");
  for (std::int64_t number = 2; number <= parts; ++number) {
    const std::optional<fs::path> beside = part_beside(file, number, parts);
    if (!beside) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{} is the first of {} parts, and others are found by the name NAME-00001-of-{:05}.gguf",
                              name_, parts, parts));
    }
    read_part(*beside, false);
  }
  const std::optional<std::int64_t> expected = metadata_.count(split_tensors_key);
  if (expected && *expected != static_cast<std::int64_t>(tensors_.size())) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} and its parts have {} tensors instead of {}", name_, tensors_.size(), *expected));
  }
}

void GgufFile::read_part(const fs::path& file, bool is_first) {
  const MappedFile& mapped = files_.emplace_back(file);
  if (!mapped.text().starts_with(magic)) {
    throw Error(ErrorCode::invalid_model,
                format_message("'{}' is no GGUF file: it does not begin with GGUF", file_at(file)));
  }
  try {
    Reader reader(mapped.text());
    const Header header = read_header(reader);
    Metadata metadata = read_metadata(reader, header.keys);
    const std::int64_t part = metadata.count(split_number_key).value_or(0);
    const auto expected_part = static_cast<std::int64_t>(files_.size()) - 1;
    if (part != expected_part) {
      throw broken(is_first ? fmt::format("it is part {} of a model; name part 1, which ends in -00001-of-…", part + 1)
                            : fmt::format("it says that it is part {}, not {}", part + 1, expected_part + 1));
    }
    std::vector<Described> described;
    for (std::uint64_t i = 0; i < header.tensors; ++i) described.push_back(read_description(reader));
    const std::uint64_t alignment = alignment_in(metadata);
    const std::uint64_t begin = (reader.position() + alignment - 1) / alignment * alignment;
    const std::span<const std::byte> all = mapped.bytes();
    for (const Described& tensor : described) {
      const auto refuse = [&](std::string_view why) {
        return broken(fmt::format("{} {}", onnx::quote(tensor.name), why));
      };
      if (tensor.offset % alignment != 0) {
        throw refuse(fmt::format("is at {}, which is no multiple of {}", tensor.offset, alignment));
      }
      const std::uint64_t space = begin > all.size() ? 0 : all.size() - begin;
      if (tensor.bytes > space || tensor.offset > space - tensor.bytes) {
        throw refuse("is not in the file as a whole: the file is incomplete");
      }
      StoredTensor stored{
          .type = tensor.type, .shape = tensor.shape, .bytes = all.subspan(begin + tensor.offset, tensor.bytes)};
      if (!tensors_.try_emplace(std::string(tensor.name), std::move(stored)).second) throw refuse("is there twice");
    }
    if (is_first) metadata_ = std::move(metadata);
  } catch (const Error& error) {
    throw error.within(format_message("'{}' cannot be read", file_at(file)));
  }
}

const StoredTensor* GgufFile::find(std::string_view tensor) const noexcept {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<float> GgufFile::elements(const StoredTensor& tensor, std::int64_t first_row, std::int64_t rows) {
  if (first_row < 0 || rows < 0 || first_row > tensor.rows() || rows > tensor.rows() - first_row) {
    throw Error(ErrorCode::internal, fmt::format("rows {} to {} of {}", first_row, first_row + rows, tensor.rows()));
  }
  const auto row_elements = static_cast<std::size_t>(tensor.row_elements());
  const TypeFacts& facts = facts_of(tensor.type);
  const std::size_t row_bytes = row_elements / facts.block_elements * facts.block_bytes;
  std::vector<float> values(static_cast<std::size_t>(rows) * row_elements);
  read_elements(
      tensor.type,
      tensor.bytes.subspan(static_cast<std::size_t>(first_row) * row_bytes, static_cast<std::size_t>(rows) * row_bytes),
      values);
  return values;
}

}  // namespace gpux::importer::gguf
