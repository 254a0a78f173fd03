#pragma once

#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "gpux/error.h"
#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::test {

constexpr std::int64_t any = -1;

/// The type of a tensor whose dimensions are `sizes`, free where they are `any`; without sizes the rank is free too.
inline ValueType tensor_type(ElementType element, std::optional<std::vector<std::int64_t>> sizes = std::nullopt) {
  ValueType type{.kind = ValueKind::tensor, .element = element};
  if (!sizes) return type;
  type.dimensions.emplace();
  for (const std::int64_t size : *sizes) {
    type.dimensions->push_back(size == any ? Dimension{.name = "batch"} : Dimension{.size = size});
  }
  return type;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string reference(std::string_view file) {
  return read_file(std::filesystem::path(GPUX_SOURCE_DIR) / "tests/tensor/references" / file);
}

inline bool same(const Tensor& left, const Tensor& right) {
  if (left.type() != right.type() || left.shape() != right.shape()) return false;
  if (left.type() == ElementType::string) {
    return std::equal(left.strings().begin(), left.strings().end(), right.strings().begin(), right.strings().end());
  }
  return left.byte_size() == 0 || std::memcmp(left.bytes().data(), right.bytes().data(), left.byte_size()) == 0;
}

/// The message of the Error that `call` throws, which must be of that code; a failure of the test where it throws none.
template <typename Call>
std::string message_of(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << "more than one line: " << error.what();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

template <typename Call>
std::string refusal_of(const Call& call) {
  return message_of(ErrorCode::invalid_input, call);
}

}  // namespace gpux::test
