#include "vector_store/local/vectors_file.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/sha256.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

using FileJson = nlohmann::json;

constexpr std::string_view file_magic = "GPUXVEC1", segment_magic = "GPUXSEG1";
constexpr std::uint32_t kind_points = 1, kind_graph = 2;
constexpr std::size_t header_bytes = 48, segment_bytes = 56, digest_at_header = 16;
constexpr std::size_t max_facts_bytes = std::size_t{1} << 20;

[[noreturn]] void refuse_file(std::string_view shown, std::string_view what) {
  throw Error(ErrorCode::invalid_input, fmt::format("'{}' is no file of vectors of gpux: {}", shown, what));
}

template <typename Number>
void append_number(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename Element>
void append_elements(std::string& out, std::span<const Element> elements) {
  out.append(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
}

void fill_to_eight(std::string& out) {
  out.append((8 - out.size() % 8) % 8, '\0');
}

std::size_t filled(std::size_t bytes) noexcept {
  return (bytes + 7) / 8 * 8;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string digest_of(std::string_view bytes) {
  const PointId digest = id_bytes(sha256_of(bytes));
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Takes bytes from the front; what is not there is an error.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, std::string_view shown) : bytes_(bytes), shown_(shown) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) refuse_file(shown_, "it is cut");
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

  // `count` below 2^32.
  template <typename Element>
  std::span<const Element> take_elements(std::uint64_t count) {
    const auto taken = take(count * sizeof(Element));
    return {reinterpret_cast<const Element*>(taken.data()), static_cast<std::size_t>(count)};
  }

  template <typename Number>
  Number take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  void skip_to_eight(std::size_t taken) { (void)take(filled(taken) - taken); }

  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  std::string_view shown_;
};

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string segment_of(std::uint32_t kind, std::size_t points, std::string body) {
  fill_to_eight(body);
  std::string out(segment_magic);
  append_number(out, kind);
  append_number(out, static_cast<std::uint32_t>(points));
  append_number(out, std::uint64_t{body.size()});
  out += digest_of(body);
  return out + body;
}

PointSegment read_points(std::span<const std::byte> body, std::size_t points, std::size_t first, std::size_t dimension,
                         std::string_view shown) {
  Bytes bytes(body, shown);
  PointSegment segment;
  segment.first = first;
  segment.points = points;
  const auto replaced = bytes.take_number<std::uint32_t>();
  (void)bytes.take_number<std::uint32_t>();
  segment.replaced = bytes.take_elements<std::uint32_t>(replaced);
  bytes.skip_to_eight(segment.replaced.size_bytes());
  if (std::ranges::any_of(segment.replaced, [&](std::uint32_t index) { return index >= first; })) {
    refuse_file(shown, "it replaces points that are not there");
  }
  segment.vectors = bytes.take_elements<float>(std::uint64_t{points} * dimension);
  bytes.skip_to_eight(segment.vectors.size_bytes());
  segment.offsets = bytes.take_elements<std::uint64_t>(std::uint64_t{points} + 1);
  segment.ids = bytes.take_elements<PointId>(points);
  segment.entries = bytes.rest();
  if (!std::ranges::is_sorted(segment.offsets) || segment.offsets.back() > segment.entries.size()) {
    refuse_file(shown, "its entries are not in order");
  }
  return segment;
}

bool is_all_zeros(std::span<const std::byte> bytes) noexcept {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

struct SegmentHead {
  std::uint32_t kind = 0, points = 0;
  std::span<const std::byte> digest, body;
  std::uint64_t end = 0;  // in the file
};

// Of the segment at `at`; false where it is not whole.
bool read_head(std::span<const std::byte> file, std::uint64_t at, SegmentHead& head, std::string_view shown) {
  const auto rest = file.subspan(static_cast<std::size_t>(at));
  if (rest.size() < segment_bytes) return false;
  // Its beginning and the end of its digest: the file has grown before these bytes were there.
  const auto end = rest.subspan(segment_bytes - sizeof(std::uint64_t), sizeof(std::uint64_t));
  if (is_all_zeros(rest.first(segment_magic.size())) || is_all_zeros(end)) return false;
  if (text_of(rest.first(segment_magic.size())) != segment_magic) {
    refuse_file(shown, "a part of it does not begin as one");
  }
  Bytes bytes(rest.subspan(segment_magic.size()), shown);
  head.kind = bytes.take_number<std::uint32_t>();
  head.points = bytes.take_number<std::uint32_t>();
  const auto size = bytes.take_number<std::uint64_t>();
  head.digest = bytes.take(sizeof(PointId));
  if (size > bytes.rest().size()) return false;
  if (size % 8 != 0 || head.points == 0 || (head.kind != kind_points && head.kind != kind_graph)) {
    refuse_file(shown, "a part of it is of an unknown kind");
  }
  head.body = bytes.take(size);
  head.end = at + segment_bytes + size;
  return true;
}

void add_segment(VectorsFile& file, const SegmentHead& head, std::string_view shown) {
  if (head.kind == kind_graph) {
    if (head.points > file.points) refuse_file(shown, "its index has points that are not there");
    file.graph = head.body;
    file.indexed = head.points;
    return;
  }
  file.segments.push_back(read_points(head.body, head.points, file.points, file.facts.dimension, shown));
  file.points += head.points;
  if (file.points >= UINT32_MAX) refuse_file(shown, "it has too many points");
}

/// An entry as it is in the file.
struct EntryParts {
  std::span<const std::byte> indices, values, text, payload;
};

EntryParts parts_of(const PointSegment& segment, std::size_t point, std::string_view shown) {
  const std::uint64_t begin = segment.offsets[point], end = segment.offsets[point + 1];
  Bytes bytes(segment.entries.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), shown);
  EntryParts parts;
  const auto count = bytes.take_number<std::uint32_t>();
  parts.indices = bytes.take(std::uint64_t{count} * sizeof(std::uint32_t));
  parts.values = bytes.take(std::uint64_t{count} * sizeof(float));
  parts.text = bytes.take(bytes.take_number<std::uint32_t>());
  parts.payload = bytes.rest();
  return parts;
}

// They need not lie at a multiple of four.
template <typename Element>
std::vector<Element> elements_of(std::span<const std::byte> bytes) {
  std::vector<Element> elements(bytes.size() / sizeof(Element));
  if (!elements.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

SparseVector sparse_of(const EntryParts& parts) {
  return {.indices = elements_of<std::uint32_t>(parts.indices), .values = elements_of<float>(parts.values)};
}

FileJson payload_of(const EntryParts& parts, std::string_view shown) {
  FileJson payload = stored_json(text_of(parts.payload));
  if (!payload.is_object()) refuse_file(shown, "the payload of a point is no JSON object");
  return payload;
}

CollectionFacts read_facts(std::span<const std::byte> file, std::uint64_t& end, std::string_view shown) {
  if (file.size() < header_bytes || text_of(file.first(file_magic.size())) != file_magic) {
    refuse_file(shown, "it does not begin as one");
  }
  Bytes bytes(file.subspan(file_magic.size()), shown);
  const auto size = bytes.take_number<std::uint32_t>();
  (void)bytes.take_number<std::uint32_t>();
  (void)bytes.take(sizeof(PointId));
  if (size > max_facts_bytes) refuse_file(shown, "its facts are too long");
  const std::string_view text = text_of(bytes.take(size));
  bytes.skip_to_eight(size);
  end = file.size() - bytes.rest().size();
  if (text_of(file.subspan(digest_at_header, sizeof(PointId))) != digest_of(text)) {
    refuse_file(shown, "its facts have another digest");
  }
  return facts_from_json(stored_json(text, 4), shown);
}

}  // namespace

PointId id_bytes(std::string_view id) {
  PointId bytes{};
  bool is_id = id.size() == 2 * bytes.size();
  for (std::size_t i = 0; is_id && i < bytes.size(); ++i) {
    const int high = digit_of(id[2 * i]), low = digit_of(id[2 * i + 1]);
    is_id = high >= 0 && low >= 0;
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!is_id) throw Error(ErrorCode::invalid_input, "the id of a point is not 64 hexadecimal digits");
  return bytes;
}

std::string id_text(const PointId& id) {
  std::string text;
  for (const std::byte one : id) text += fmt::format("{:02x}", std::to_integer<unsigned>(one));
  return text;
}

std::string file_header(const CollectionFacts& facts) {
  const std::string text = facts_to_json(facts).dump(-1, ' ', false, FileJson::error_handler_t::replace);
  std::string out(file_magic);
  append_number(out, static_cast<std::uint32_t>(text.size()));
  append_number(out, std::uint32_t{0});
  out += digest_of(text) + text;
  fill_to_eight(out);
  return out;
}

std::string point_segment(std::span<const Point* const> points, std::size_t dimension,
                          std::span<const std::uint32_t> replaced) {
  std::string body;
  append_number(body, static_cast<std::uint32_t>(replaced.size()));
  append_number(body, std::uint32_t{0});
  append_elements(body, replaced);
  fill_to_eight(body);
  std::string entries;
  std::vector<std::uint64_t> offsets{0};
  for (const Point* point : points) {
    if (point->vector.size() != dimension) {
      throw Error(ErrorCode::invalid_input, fmt::format("a vector has {} elements, and the collection's have {}",
                                                        point->vector.size(), dimension));
    }
    append_elements(body, std::span<const float>(point->vector));
    append_number(entries, static_cast<std::uint32_t>(point->sparse.indices.size()));
    append_elements(entries, std::span<const std::uint32_t>(point->sparse.indices));
    append_elements(entries, std::span<const float>(point->sparse.values));
    append_number(entries, static_cast<std::uint32_t>(point->text.size()));
    entries += point->text + point->payload.dump(-1, ' ', false, FileJson::error_handler_t::replace);
    offsets.push_back(entries.size());
  }
  fill_to_eight(body);
  append_elements(body, std::span<const std::uint64_t>(offsets));
  for (const Point* point : points) {
    const PointId id = id_bytes(point->id);
    append_elements(body, std::span<const std::byte>(id));
  }
  return segment_of(kind_points, points.size(), body + entries);
}

std::string graph_segment(std::string_view graph, std::size_t points) {
  return segment_of(kind_graph, points, std::string(graph));
}

VectorsFile read_vectors_file(std::span<const std::byte> bytes, std::string_view shown) {
  VectorsFile file;
  file.facts = read_facts(bytes, file.bytes, shown);
  SegmentHead head;
  while (read_head(bytes, file.bytes, head, shown)) {
    // Those before it were on the disk before it was begun.
    const bool is_last = head.end == bytes.size();
    if (is_last && text_of(head.digest) != digest_of(text_of(head.body))) break;
    add_segment(file, head, shown);
    file.bytes = head.end;
  }
  return file;
}

StoredEntry read_entry(const PointSegment& segment, std::size_t point, std::string_view shown) {
  const EntryParts parts = parts_of(segment, point, shown);
  return {.sparse = sparse_of(parts), .text = storable_text(text_of(parts.text)), .payload = payload_of(parts, shown)};
}

SparseVector read_sparse(const PointSegment& segment, std::size_t point, std::string_view shown) {
  return sparse_of(parts_of(segment, point, shown));
}

FileJson read_payload(const PointSegment& segment, std::size_t point, std::string_view shown) {
  return payload_of(parts_of(segment, point, shown), shown);
}

}  // namespace gpux::vector_store
