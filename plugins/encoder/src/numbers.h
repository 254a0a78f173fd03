#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gpux_encoder {

/// Numbers that nobody changes: their own, or such as lie in what somebody else keeps, a mapped file. Copies share
/// them.
template <typename Number>
class Numbers {
 public:
  Numbers() = default;

  // Implicit, as a list of numbers is what it is made of.
  Numbers(std::vector<Number> own) {
    auto kept = std::make_shared<const std::vector<Number>>(std::move(own));
    all_ = *kept;
    keeper_ = std::move(kept);
  }

  /// `all` lives as long as `keeper`.
  Numbers(std::span<const Number> all, std::shared_ptr<const void> keeper) : keeper_(std::move(keeper)), all_(all) {}

  [[nodiscard]] const Number* data() const noexcept { return all_.data(); }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

 private:
  std::shared_ptr<const void> keeper_;
  std::span<const Number> all_;
};

}  // namespace gpux_encoder
