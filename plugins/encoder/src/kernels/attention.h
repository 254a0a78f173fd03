#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace gpux_encoder {

/// What one head of one text is computed in; one thread at a time.
struct AttentionRoom {
  Room<float> keys, values, scores, mixed;
  Room<std::uint32_t> key_pairs, value_pairs;
  Room<std::uint16_t> shares;
};

/// What a mask makes of the scores of keys that it leaves out. Nothing is left of them beside one that counts; in a
/// text without any, shares come of these alone.
struct HiddenKeys {
  float score = -10000;
  bool replaces = false;        ///< else it is added
  bool nothing_if_all = false;  ///< shares of 0, where they would be no numbers

  bool operator==(const HiddenKeys&) const = default;
};

/// One head of one text, as float32 or as bfloat16.
template <typename Element>
struct Head {
  const Element *queries = nullptr, *keys = nullptr, *values = nullptr;  ///< rows of `width`
  std::size_t stride = 0;                                                ///< of the three, in elements
  std::size_t width = 0;                                                 ///< even where it is bfloat16
  std::size_t query_count = 0, key_count = 0;                            ///< both 1 or more
  const HiddenKeys* hidden_keys = nullptr;                               ///< set where no key counts
  float scale = 1;                                                       ///< of a query times a key
  float* out = nullptr;                                                  ///< [query_count, width]
  std::size_t out_stride = 0;
};

/// Added to the score of each query and key, by their number; or nothing.
struct Relative {
  const float* values = nullptr;  ///< [places, places] of this head
  std::size_t places = 0;
  const std::size_t* place = nullptr;  ///< of each query; the keys are the first of them
};

/// out = softmax(queries * keys * scale + relative) * values. Adds up in float32.
void attend(const Kernels& kernels, const Head<float>& head, const Relative& relative, AttentionRoom& room);
void attend(const Kernels& kernels, const Head<std::uint16_t>& head, const Relative& relative, AttentionRoom& room);

}  // namespace gpux_encoder
