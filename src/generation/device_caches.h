#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "generation/cache_mover.h"
#include "generation/sequence_caches.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values in memory of a device, where the model writes them behind those of earlier tokens
/// (DecoderSignature::writes_in_place): the rows of a run are a group, one block of memory for each array, that grows
/// in blocks. A run reads and writes it where it is. Rows are copied, on the device, where other slots than before
/// share a run, and where a group grows.
class DeviceCaches : public SequenceCaches {
 public:
  /// All outlive it. Errors of CacheMover's constructor.
  DeviceCaches(const Runtime& runtime, runtime::SessionReplica& session, const DecoderSignature& signature,
               std::size_t slots);

  [[nodiscard]] Tensor run(std::size_t first_slot, std::span<const DecoderRow> rows, LogitRows wanted) override;

  [[nodiscard]] bool can_batch() const noexcept override {
    return sharing_ == Sharing::near || sharing_ == Sharing::equal;
  }

  /// Tests whether rows may share runs. Before this call, they run one by one.
  void compare_rows(std::size_t vocabulary, std::size_t max_tokens) override;

  void copy(std::size_t from, std::size_t to, std::size_t tokens) override;
  void exchange(std::size_t a, std::size_t tokens_a, std::size_t b, std::size_t tokens_b) noexcept override;
  void release(std::size_t slot, std::size_t first, std::size_t end) noexcept override;

  [[nodiscard]] bool can_copy_tokens() const noexcept override { return false; }

  /// Error usage.
  void read_tokens(const SlotTokens& from, std::span<std::byte> rows) override;
  void write_tokens(const SlotTokens& to, std::span<const std::byte> rows) override;

  [[nodiscard]] std::optional<std::string> note() const override;

 private:
  /// Rows with so many positions each.
  struct Group {
    DeviceArrays arrays;
    std::size_t rows = 0, capacity = 0;
  };

  /// Keys and values of a slot: a row of a group; without a group, none.
  struct Slot {
    std::shared_ptr<const Group> group{};
    std::size_t row = 0;
    std::size_t tokens = 0;
  };

  /// Whether texts share runs, and what their logits then are, compared with those of each alone.
  enum class Sharing : std::uint8_t { not_tried, none, near, equal };

  /// Runs the rows together and compares their logits with `alone`, those of each row in a run of its own.
  [[nodiscard]] Sharing compare(const std::vector<Tensor>& alone, const std::vector<DecoderRow>& rows);

  [[nodiscard]] bool is_near(const Tensor& expected, const Tensor& found) const;

  [[nodiscard]] Tensor run_by_token(std::size_t slot, const DecoderRow& row);
  [[nodiscard]] Tensor run_together(std::size_t first_slot, std::span<const DecoderRow> rows);
  [[nodiscard]] Tensor run_one_by_one(std::size_t first_slot, std::span<const DecoderRow> rows);
  /// The rows of all slots of the group: those of the run, and one token for each other.
  [[nodiscard]] std::vector<DecoderRow> rows_of(const Group& group, std::size_t first_slot,
                                                std::span<const DecoderRow> rows) const;
  [[nodiscard]] Tensor run_group(const Group& group, std::span<const DecoderRow> rows);

  /// The group that these slots, and no others or few, are in; they are moved there where need be.
  [[nodiscard]] std::shared_ptr<const Group> common_group(std::span<Slot> slots, std::size_t capacity,
                                                          std::size_t tokens);
  void move_together(std::span<Slot> slots, std::size_t capacity);
  /// The slots that use the group.
  [[nodiscard]] std::vector<Slot*> users_of(const Group& group);
  void move_out_of_sparse(const std::shared_ptr<const Group>& group);
  [[nodiscard]] std::shared_ptr<const Group> gathered(std::span<const DeviceArrays* const> sources,
                                                      std::span<const std::size_t> rows, std::size_t capacity);
  /// A row of one position, which slots without tokens begin with.
  [[nodiscard]] const std::shared_ptr<const Group>& empty_group();

  const Runtime& runtime_;
  runtime::SessionReplica& session_;
  const DecoderSignature& signature_;
  CacheMover mover_;
  std::vector<std::size_t> logits_;  // index of the output
  std::vector<Slot> slots_;
  std::shared_ptr<const Group> empty_;
  Sharing sharing_ = Sharing::not_tried;
  bool takes_prompts_ = true;        // a run of several tokens gives the logits of as many runs
  bool is_short_of_memory_ = false;  // a run had none: from then on no row is computed that nobody reads
};

}  // namespace gpux::generation
