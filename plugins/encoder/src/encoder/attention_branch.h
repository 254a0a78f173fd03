#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "encoder/attention_plan.h"
#include "encoder/pass.h"

namespace gpux_cpu::encoder {

/// The attention of the layers of a pass.
class AttentionBranch {
 public:
  explicit AttentionBranch(Pass& pass) : pass_(pass) {}

  /// pass.context = the attention of all rows, of the layer of this index, whose input is pass.layer_input.
  void run(std::size_t index);

  /// For each row of the pass, whether it attended no key in a layer so far whose masked scores then make it NaN;
  /// empty: none did.
  [[nodiscard]] std::vector<bool> nan_rows() const;

 private:
  void project(const Layer& layer);
  void finish_heads(const Layer& layer, std::size_t row, float* values) const;
  template <typename Element>
  void attend(std::size_t index, const Element* rows);
  template <typename Element>
  void attend(const Layer& layer, const AttentionPlan& plan, const Element* rows, std::size_t index,
              std::size_t first_item, std::size_t last_item);
  const AttentionPlan& plan_of(const Layer& layer);

  Pass& pass_;
  std::deque<std::pair<AttentionScope, AttentionPlan>> plans_;  // of each scope that the layers have
};

}  // namespace gpux_cpu::encoder
