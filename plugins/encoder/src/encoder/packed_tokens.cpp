#include "encoder/packed_tokens.h"

#include <algorithm>

namespace gpux_encoder {

Packed pack(const Batch& batch, const std::optional<std::int64_t>& padding, Others others) {
  Packed packed;
  std::vector<std::int64_t> positions(batch.length);
  packed.starts.push_back(0);
  for (std::size_t text = 0; text < batch.texts; ++text) {
    std::int64_t tokens = 0;
    for (std::size_t place = 0; place < batch.length; ++place) {
      const bool is_token = !padding || batch.ids[text * batch.length + place] != *padding;
      if (is_token) ++tokens;
      positions[place] = !padding ? static_cast<std::int64_t>(place) : is_token ? tokens : 0;
    }
    const auto add_where = [&](bool counts, std::size_t end) {
      for (std::size_t place = 0; place < end; ++place) {
        const bool does = batch.mask == nullptr || batch.mask[text * batch.length + place] != 0;
        if (does == counts) packed.add(batch, text, place, positions[place]);
      }
    };
    add_where(true, batch.length);
    packed.counted.push_back(packed.ids.size() - packed.starts.back());
    // Where no token counts, the first row is mixed of all.
    const bool is_whole = others == Others::all || packed.counted.back() == 0;
    if (others != Others::none) add_where(false, is_whole ? batch.length : std::min<std::size_t>(1, batch.length));
    packed.starts.push_back(packed.ids.size());
  }
  return packed;
}

}  // namespace gpux_encoder
