#include "generation/prompt_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/checksum.h"

namespace gpux::generation {
namespace {

constexpr std::string_view magic{"gpuxkeys", 8};
// Changed with the format: files of another one are left alone.
constexpr std::uint32_t format_version = 1;
constexpr std::size_t digest_bytes = 64;
// A block is in a processor's cache while it is read, checked and copied.
constexpr std::uint64_t max_block_bytes = std::uint64_t{1} << 20, max_token_bytes = std::uint64_t{1} << 30;
constexpr std::uint32_t max_arrays = 1 << 12, max_heads = 1 << 16, max_head_size = 1 << 16;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  void text(std::string_view text, std::size_t size) {
    const std::size_t begin = out_.size();
    out_.resize(begin + size);
    std::memcpy(out_.data() + begin, text.data(), std::min(text.size(), size));
  }

  template <typename Number>
  void number(Number value) {
    const std::size_t begin = out_.size();
    out_.resize(begin + sizeof value);
    std::memcpy(out_.data() + begin, &value, sizeof value);
  }

 private:
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::string_view text(std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }

  template <typename Number>
  Number number() {
    Number value{};
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct FixedHead {
  std::uint32_t version = 0, tokens = 0;
  CacheLayout layout;
  std::uint32_t tokens_per_block = 0;
  bool has_layout = false;
};

bool is_cache_type(std::uint32_t type) {
  constexpr std::array types{ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int8};
  return std::ranges::find(types, static_cast<ElementType>(type)) != types.end();
}

FixedHead fixed_head_from(Reader& reader) {
  FixedHead head;
  head.version = reader.number<std::uint32_t>();
  head.tokens = reader.number<std::uint32_t>();
  const auto arrays = reader.number<std::uint32_t>(), heads = reader.number<std::uint32_t>(),
             head_size = reader.number<std::uint32_t>(), type = reader.number<std::uint32_t>();
  head.tokens_per_block = reader.number<std::uint32_t>();
  (void)reader.number<std::uint32_t>();
  head.has_layout = arrays > 0 && arrays <= max_arrays && heads > 0 && heads <= max_heads && head_size > 0 &&
                    head_size <= max_head_size && is_cache_type(type);
  if (head.has_layout) {
    head.layout = {.arrays = arrays, .heads = heads, .head_size = head_size, .type = static_cast<ElementType>(type)};
  }
  return head;
}

std::size_t count_of_blocks(const CacheLayout& layout, std::size_t tokens) noexcept {
  const std::size_t each = tokens_per_block(layout);
  return (tokens + each - 1) / each;
}

}  // namespace

std::size_t tokens_per_block(const CacheLayout& layout) noexcept {
  std::size_t tokens = 256;
  while (tokens > 2 && tokens * layout.bytes_per_token() > max_block_bytes) tokens /= 2;
  return tokens;
}

std::vector<TokenBlock> blocks_of(const CacheLayout& layout, std::size_t tokens) {
  const std::size_t each = tokens_per_block(layout);
  const std::uint64_t bytes = layout.bytes_per_token();
  std::vector<TokenBlock> blocks;
  for (std::size_t first = 0; first < tokens; first += each) {
    const std::size_t count = std::min(each, tokens - first);
    blocks.push_back({.first = first, .tokens = count, .offset = first * bytes, .bytes = count * bytes});
  }
  return blocks;
}

std::uint64_t head_bytes(const CacheLayout& layout, std::size_t tokens) noexcept {
  return fixed_head_bytes + tokens * sizeof(std::uint32_t) +
         (count_of_blocks(layout, tokens) + 1) * sizeof(std::uint64_t);
}

std::uint64_t file_bytes(const CacheLayout& layout, std::size_t tokens) noexcept {
  return head_bytes(layout, tokens) + tokens * layout.bytes_per_token();
}

std::vector<std::byte> head_of(const StoredPrompt& prompt) {
  std::vector<std::byte> head;
  head.reserve(head_bytes(prompt.layout, prompt.tokens.size()));
  Writer writer(head);
  writer.text(magic, magic.size());
  const std::array<std::size_t, 8> numbers{format_version,
                                           prompt.tokens.size(),
                                           prompt.layout.arrays,
                                           static_cast<std::size_t>(prompt.layout.heads),
                                           static_cast<std::size_t>(prompt.layout.head_size),
                                           static_cast<std::size_t>(prompt.layout.type),
                                           tokens_per_block(prompt.layout),
                                           0};
  for (const std::size_t number : numbers) writer.number(static_cast<std::uint32_t>(number));
  writer.text(prompt.identity, digest_bytes);
  writer.text(prompt.scope, digest_bytes);
  for (const std::uint32_t token : prompt.tokens) writer.number(token);
  for (const std::uint64_t checksum : prompt.checksums) writer.number(checksum);
  writer.number(checksum_of(head));
  return head;
}

HeadExtent head_extent(std::span<const std::byte> beginning, std::uint64_t size) noexcept {
  using Kind = HeadExtent::Kind;
  if (beginning.size() < fixed_head_bytes) return {};
  Reader reader(beginning);
  if (reader.text(magic.size()) != magic) return {.kind = Kind::other};
  const FixedHead head = fixed_head_from(reader);
  if (head.version != format_version) return {.kind = Kind::other};
  if (!head.has_layout || head.tokens == 0 || head.tokens > max_stored_tokens) return {};
  const std::uint64_t each = head.layout.bytes_per_token();
  if (each == 0 || each > max_token_bytes || head.tokens_per_block != tokens_per_block(head.layout)) return {};
  if (size != file_bytes(head.layout, head.tokens)) return {};
  return {.kind = Kind::prompt, .bytes = head_bytes(head.layout, head.tokens)};
}

std::optional<StoredPrompt> read_head(std::span<const std::byte> head) {
  Reader end(head.last(sizeof(std::uint64_t)));
  if (end.number<std::uint64_t>() != checksum_of(head.first(head.size() - sizeof(std::uint64_t)))) return std::nullopt;
  Reader reader(head);
  (void)reader.text(magic.size());
  const FixedHead fixed = fixed_head_from(reader);
  StoredPrompt prompt{.identity = std::string(reader.text(digest_bytes)),
                      .scope = std::string(reader.text(digest_bytes)),
                      .layout = fixed.layout,
                      .tokens = {},
                      .checksums = {}};
  prompt.tokens.reserve(fixed.tokens);
  for (std::size_t i = 0; i < fixed.tokens; ++i) prompt.tokens.push_back(reader.number<std::uint32_t>());
  const std::size_t blocks = count_of_blocks(fixed.layout, fixed.tokens);
  for (std::size_t i = 0; i < blocks; ++i) prompt.checksums.push_back(reader.number<std::uint64_t>());
  return prompt;
}

}  // namespace gpux::generation
