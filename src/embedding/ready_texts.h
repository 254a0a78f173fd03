#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "embedding/text_batching.h"

namespace gpux::embedding {

/// A text that is tokenized, and its number among all.
struct ReadyText {
  std::uint64_t index = 0;
  std::string text;
  PreparedText prepared;
};

/// Tokenized texts that wait for a run, by their lengths. What a call costs depends on the texts that it takes, and
/// hardly on those that wait. Not thread-safe.
class ReadyTexts {
 public:
  void add(ReadyText text);

  [[nodiscard]] std::size_t size() const noexcept { return lengths_.size(); }

  [[nodiscard]] bool empty() const noexcept { return lengths_.empty(); }

  /// Removes the oldest text, and those that share its run, within the limits of `batching`: with none of its length
  /// filled up, the oldest of that length; where filling up costs nothing, the oldest of any length; else those of the
  /// nearest lengths. Empty where there is none.
  std::vector<ReadyText> take(const TextSharing& batching);

  /// Drops all behind that text.
  void drop_behind(std::uint64_t index);

 private:
  using Bucket = std::map<std::uint64_t, ReadyText>;  // by index

  class Group;
  bool take_oldest(std::size_t length, Group& group);
  void take_any(Group& group);
  void take_nearest(std::size_t length, Group& group);

  std::map<std::size_t, Bucket> buckets_;         // by length; none is empty
  std::map<std::uint64_t, std::size_t> lengths_;  // by index
};

}  // namespace gpux::embedding
