#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::embedding {

/// The inputs of a transformer that the tokens of a text go into, by the names that all exporters give them: input_ids,
/// attention_mask, token_type_ids, position_ids; int64 or int32 of [batch, sequence]. Also keys and values of earlier
/// tokens, past_key_values.N.key and .value, of which a text has none. Also which adapter a text gets,
/// of a model that has several: task_id of [] or [batch], which Jina's files have, a task's index; adapter_id of
/// [batch], which gpux's have, the index or the number of tasks for none.
class TokenInputs {
 public:
  TokenInputs() = default;

  /// `first_position` is the position id of the first token, `tasks` the number of tasks with adapters; without
  /// `has_token_types` all token_type_ids are 0. Error invalid_model where there are no input_ids, or an input of those
  /// names is of another kind.
  TokenInputs(const Signature& signature, std::int64_t first_position, std::size_t tasks = 0,
              bool has_token_types = true);

  /// Whether the input is made of a text.
  [[nodiscard]] bool has(std::string_view name) const noexcept;

  /// Whether there are inputs for keys and values of earlier tokens.
  [[nodiscard]] bool takes_past() const noexcept { return !past_.empty(); }

  /// Whether an input chooses the adapter of a task.
  [[nodiscard]] bool takes_task() const noexcept;

  /// Whether that input has to choose one: it has no value for none.
  [[nodiscard]] bool requires_task() const noexcept { return has("task_id"); }

  /// The number of tokens that the model's file asks for; empty where any will do.
  [[nodiscard]] std::optional<std::size_t> fixed_length() const noexcept { return fixed_length_; }

  /// Error invalid_model where the model asks for an input that takes no tokens, or for a fixed number of tokens.
  void require_no_others() const;

  /// Each [1, tokens], of tokens with their types. Filled up to `length` tokens behind the text's own with
  /// `padding_token`, which the mask leaves out. `task` is the text's; empty: none, or the first if requires_task().
  [[nodiscard]] NamedValues values(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                                   std::size_t length = 0, std::uint32_t padding_token = 0,
                                   std::optional<std::size_t> task = {}) const;

 private:
  enum class Role : std::uint8_t { ids, mask, types, positions, task, adapter };

  struct Input {
    std::string name;
    Role role;
    ElementType element;
    bool is_scalar = false;
  };

  [[nodiscard]] static bool is_of_text(Role role) noexcept { return role == Role::task || role == Role::adapter; }

  std::vector<Input> inputs_;
  NamedValues past_;                 // of length 0
  std::vector<std::string> others_;  // that are required
  std::int64_t first_position_ = 0;
  std::optional<std::size_t> fixed_length_;
  std::size_t tasks_ = 0;
  bool has_token_types_ = true;
};

}  // namespace gpux::embedding
