#include "importer/gguf/metadata.h"

#include <fmt/format.h>

#include "gpux/error.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

struct Described {
  std::string operator()(bool value) const { return value ? "true" : "false"; }

  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }

  std::string operator()(double value) const { return fmt::format("{}", value); }

  std::string operator()(std::string_view value) const { return onnx::quote(value); }

  std::string operator()(const std::vector<bool>& value) const { return list(value.size(), "flags"); }

  std::string operator()(const Integers& value) const { return list(value.size(), "whole numbers"); }

  std::string operator()(const Numbers& value) const { return list(value.size(), "numbers"); }

  std::string operator()(const Texts& value) const { return list(value.size(), "texts"); }

 private:
  static std::string list(std::size_t size, std::string_view of) { return fmt::format("a list of {} {}", size, of); }
};

}  // namespace

bool Metadata::add(std::string_view key, Value value) {
  return values_.try_emplace(std::string(key), std::move(value)).second;
}

const Value* Metadata::find(std::string_view key) const noexcept {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> Metadata::count(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number == nullptr || *number < 0) refuse(key, "a whole number from 0 on");
  return *number;
}

std::int64_t Metadata::require_count(std::string_view key) const {
  const std::optional<std::int64_t> value = count(key);
  if (!value) throw Error(ErrorCode::invalid_model, fmt::format("the file has no {}", key));
  return *value;
}

std::optional<double> Metadata::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  refuse(key, "a number");
}

std::optional<bool> Metadata::flag(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) refuse(key, "true, false");
  return *flag;
}

std::optional<std::string_view> Metadata::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) refuse(key, "a text");
  return *text;
}

const Texts* Metadata::texts(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* texts = std::get_if<Texts>(value);
  if (texts == nullptr) refuse(key, "a list of texts");
  return texts;
}

const Integers* Metadata::integers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* integers = std::get_if<Integers>(value);
  if (integers == nullptr) refuse(key, "a list of whole numbers");
  return integers;
}

const std::vector<bool>* Metadata::flags(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* flags = std::get_if<std::vector<bool>>(value);
  if (flags == nullptr) refuse(key, "a list of flags");
  return flags;
}

std::optional<Numbers> Metadata::numbers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<Numbers>(value)) return *numbers;
  if (const auto* integers = std::get_if<Integers>(value)) return Numbers(integers->begin(), integers->end());
  refuse(key, "a list of numbers");
}

void Metadata::refuse(std::string_view key, std::string_view accepted) const {
  const Value* value = find(key);
  throw Error(ErrorCode::invalid_model,
              fmt::format("{} is {}; accepted: {}", onnx::quote(key),
                          value == nullptr ? "absent" : std::visit(Described(), *value), accepted));
}

}  // namespace gpux::importer::gguf
