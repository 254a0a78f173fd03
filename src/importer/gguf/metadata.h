#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpux::importer::gguf {

/// A list of a value's elements. Strings are views of the mapped file.
using Numbers = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string_view>;

/// Integers that are above the largest of 64 bits with a sign are kept as doubles.
using Value = std::variant<bool, std::int64_t, double, std::string_view, std::vector<bool>, Integers, Numbers, Texts>;

/// The key and value pairs of a GGUF file. Errors invalid_model name the key, what it is, and what is accepted.
class Metadata {
 public:
  /// False where the key is there already.
  bool add(std::string_view key, Value value);

  /// The value of a key; null if there is none.
  [[nodiscard]] const Value* find(std::string_view key) const noexcept;

  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }

  /// A whole number from 0 on. Empty where the key is absent.
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view key) const;
  [[nodiscard]] std::int64_t require_count(std::string_view key) const;
  /// A number of either kind.
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  /// The list of texts of a key; null if the key is absent.
  [[nodiscard]] const Texts* texts(std::string_view key) const;
  [[nodiscard]] const Integers* integers(std::string_view key) const;
  [[nodiscard]] const std::vector<bool>* flags(std::string_view key) const;
  /// A list of numbers of either kind.
  [[nodiscard]] std::optional<Numbers> numbers(std::string_view key) const;

  [[nodiscard]] const std::map<std::string, Value, std::less<>>& all() const noexcept { return values_; }

  /// "llama.block_count is 'x'; accepted: a whole number from 0 on"
  [[noreturn]] void refuse(std::string_view key, std::string_view accepted) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace gpux::importer::gguf
