#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::isolation {

/// What a tensor of numbers was like.
struct OutputForm {
  ElementType type = ElementType::undefined;
  Shape shape;
  std::size_t bytes = 0;
};

/// The form of each output of a run; empty for values that are no tensors of numbers.
using RunForms = std::vector<std::optional<OutputForm>>;

/// The outputs of earlier runs, by the types and shapes of their inputs: memory for the outputs of the next run with
/// such inputs can be prepared. Remembers max_runs of them. Not thread-safe.
class OutputForms {
 public:
  static constexpr std::size_t max_runs = 64;

  /// Null: there was no such run.
  [[nodiscard]] const RunForms* find(const NamedValues& inputs, std::span<const std::size_t> outputs) const;

  void note(const NamedValues& inputs, std::span<const std::size_t> outputs, const NamedValues& results);

  /// The outputs depend on more than the shapes of the inputs: find() finds nothing any more.
  void give_up();

 private:
  bool has_given_up_ = false;
  std::map<std::vector<std::int64_t>, RunForms> runs_;
};

}  // namespace gpux::isolation
