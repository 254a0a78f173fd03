#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/shared_array.h"

namespace gpux_cpu::encoder {

/// Writes numbers and arrays in native byte order. Each array begins at a multiple of `alignment` bytes from the first
/// byte. An array that was written before (the same memory) is written as a reference to it.
class Writer {
 public:
  static constexpr std::size_t alignment = 64;

  explicit Writer(std::ostream& out) : out_(out) {}

  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(const Number& number) {
    put(&number, sizeof number);
  }

  template <typename Number>
  void operator()(const SharedArray<Number>& array) {
    const auto [found, is_new] = arrays_.try_emplace({array.data(), array.size()}, arrays_.size());
    (*this)(found->second);
    if (!is_new) return;
    (*this)(array.size());
    constexpr std::array<char, alignment> zeros{};
    put(zeros.data(), (alignment - offset_ % alignment) % alignment);
    put(array.data(), array.size() * sizeof(Number));
  }

  void text(std::string_view text) { put(text.data(), text.size()); }

 private:
  void put(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    offset_ += bytes;
  }

  std::ostream& out_;
  std::size_t offset_ = 0;
  std::map<std::pair<const void*, std::size_t>, std::size_t> arrays_;  // with their index
};

/// Reads what Writer wrote. Arrays stay where they are: `keeper` keeps `bytes`, which begin at a multiple of
/// Writer::alignment. Throws std::runtime_error if the bytes end too early.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::shared_ptr<const void>& keeper) : left_(bytes), keeper_(keeper) {}

  template <typename Number>
    requires std::is_trivially_copyable_v<Number>
  void operator()(Number& number) {
    const std::span<const std::byte> from = take(sizeof number);
    if constexpr (std::same_as<Number, bool>) {
      number = from[0] != std::byte{0};
    } else {
      std::memcpy(&number, from.data(), sizeof number);
    }
  }

  template <typename Number>
  void operator()(SharedArray<Number>& array) {
    std::size_t index = 0;
    (*this)(index);
    if (index > arrays_.size()) throw std::runtime_error("it refers to an array that it does not contain");
    if (index == arrays_.size()) {
      std::size_t count = 0;
      (*this)(count);
      take((Writer::alignment - offset_ % Writer::alignment) % Writer::alignment);
      if (count > left_.size() / sizeof(Number)) throw std::runtime_error("it ends too early");
      arrays_.push_back(take(count * sizeof(Number)));
    }
    // An array of another element type has the same alignment, and any bytes are numbers.
    const std::span<const std::byte> from = arrays_[index];
    array = {{reinterpret_cast<const Number*>(from.data()), from.size() / sizeof(Number)}, keeper_};
  }

  void text(std::string_view text) {
    const std::span<const std::byte> from = take(text.size());
    if (std::memcmp(from.data(), text.data(), text.size()) != 0) {
      throw std::runtime_error("it is no encoder of this version of gpux");
    }
  }

  [[nodiscard]] bool is_at_end() const noexcept { return left_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > left_.size()) throw std::runtime_error("it ends too early");
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    offset_ += bytes;
    return taken;
  }

  std::span<const std::byte> left_;
  const std::shared_ptr<const void>& keeper_;
  std::size_t offset_ = 0;
  std::vector<std::span<const std::byte>> arrays_;
};

}  // namespace gpux_cpu::encoder
