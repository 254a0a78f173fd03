#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "encoder/attention.h"
#include "encoder/encoder.h"
#include "encoder/packed_tokens.h"
#include "encoder/relative_embeddings.h"
#include "kernels/scratch.h"
#include "kernels/team.h"

namespace gpux_cpu::encoder {

/// Rows in the precision of a matrix that multiplies them.
struct ConvertedRows {
  ScratchBuffer<std::uint16_t> bfloat16s;
  ScratchBuffer<std::uint8_t> bytes;
  ScratchBuffer<float> scale;
  ScratchBuffer<std::int32_t> zero;

  void release_if_large() noexcept;
};

struct Workspace {
  ScratchBuffer<float> x, projected, attention, context;  // of all rows
  ScratchBuffer<std::uint16_t> attention_bfloat16s;       // of all rows
  ConvertedRows layer_input;                              // of all rows
  ScratchBuffer<float> intermediate;                      // of a block of rows
  ConvertedRows block_input;                              // of a block of rows

  void release_if_large() noexcept;
};

struct Encoder::Scratch {
  Pool<Workspace> workspaces;
  Pool<AttentionScratch> attention;
  std::vector<PackedRelativeEmbeddings> relative_embeddings;  // of each layer
};

/// Weights, kernels, memory and tokens of a forward pass.
struct PassInputs {
  const Weights& weights;
  const Kernels& kernels;
  Encoder::Scratch& scratch;
  const PackedTokens& packed;
  std::size_t length = 0;                      ///< sequence_length of the batch
  Team* team = nullptr;                        ///< divides each step among its threads; null: this thread does all
  const std::atomic<bool>* stopped = nullptr;  ///< may be null
};

/// Rows that go through the feed-forward layers together: their results stay in the cache, and the memory that they
/// need does not depend on the number of tokens.
inline constexpr std::size_t rows_per_block = 512;

/// The state of a forward pass of some texts. The steps are free functions, each in a file of its own.
struct Pass {
  Pass(const PassInputs& inputs, std::size_t first_text, std::size_t last_text);
  ~Pass();

  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void throw_if_stopped() const {
    if (stopped != nullptr && *stopped) throw Stopped();
  }

  /// Divides `count` items among the threads of the team.
  template <typename Work>
  void distribute(std::size_t count, const Work& work, std::size_t parts_per_thread = 1) const {
    gpux_cpu::distribute(team, count, parts_per_thread, work);
  }

  /// work(first, last) for all rows, a block after the other.
  template <typename Work>
  void for_each_block(const Work& work) const {
    for (std::size_t first = 0; first < rows; first += rows_per_block) {
      throw_if_stopped();
      work(first, std::min(first + rows_per_block, rows));
    }
  }

  /// Scratch memory for `count` rows in the precision of `linear`, made of `floats`.
  static Linear::Rows rows_for(const Linear& linear, ConvertedRows& memory, std::size_t count, const float* floats,
                               std::size_t stride);

  /// Calls `make` for each of the rows, and converts the row to the precision of `linear` while it is in the nearest
  /// cache.
  template <typename Make>
  void make_rows(const Linear& linear, const Linear::Rows& converted, const Make& make) const {
    distribute(converted.count, [&](std::size_t first, std::size_t last) {
      for (std::size_t row = first; row < last; ++row) {
        make(row);
        linear.convert(kernels, converted, row, row + 1);
      }
    });
  }

  void multiply(const Linear& linear, const Linear::Rows& converted, float* out) const;

  /// The branch of a row, in `projected`, is added to it: x = sum_norm(x + branch_norm(branch)). If there is a
  /// `next_norm`, next_norm(x) replaces the branch.
  void finish_branch(std::size_t row, const std::optional<Norm>& branch_norm, const std::optional<Norm>& sum_norm,
                     const std::optional<Norm>& next_norm) const;

  /// The floats of the rows that a layer's branch takes, as finish_branch() leaves them.
  [[nodiscard]] const float* branch_input(const std::optional<Norm>& input_norm) const {
    return input_norm ? projected : x;
  }

  [[nodiscard]] std::size_t branch_stride(const std::optional<Norm>& input_norm) const {
    return input_norm ? projected_stride : weights.hidden_size;
  }

  const Weights& weights;
  const Kernels& kernels;
  Encoder::Scratch& scratch;
  const PackedTokens& packed;
  const std::size_t length, first_text, last_text, first_row, rows;
  Team* const team;
  const std::atomic<bool>* const stopped;
  const Pool<Workspace>::Loan loan;
  Workspace& workspace;
  const std::size_t projected_stride;
  float *x = nullptr, *projected = nullptr, *context = nullptr, *intermediate = nullptr;
  Linear::Rows layer_input;  ///< all rows, converted for the next layer
};

/// x = the embeddings of all rows.
void embed(Pass& pass);

/// The vectors of the pass's texts. `is_nan`: of each row, whether its hidden state is NaN; empty: none is.
void pool(const Pass& pass, const std::vector<bool>& is_nan, float* vectors);

/// The vectors of Pooling::splade.
void pool_splade(Pass& pass, float* vectors);

}  // namespace gpux_cpu::encoder
