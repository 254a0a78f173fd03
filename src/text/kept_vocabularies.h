#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpux::text {

/// The vocabularies that were made of a tokenizer, by their logits and end tokens; they live as long as it does.
struct KeptVocabularies {
  using Key = std::pair<std::size_t, std::vector<std::uint32_t>>;

  std::mutex mutex;
  std::map<Key, std::shared_ptr<const void>> made;
};

}  // namespace gpux::text
