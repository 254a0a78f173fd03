#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpux_cpu {

/// A buffer that keeps its memory for the next use. Its content is lost when it grows.
template <typename Element>
class ScratchBuffer {
 public:
  /// At least `count` elements, not initialized, valid until a call with a larger count.
  Element* get(std::size_t count) {
    if (count_ < count) {
      // Before the new one is taken, so that not both are in memory.
      release();
      elements_ = std::make_unique_for_overwrite<Element[]>(count);
      count_ = count;
    }
    return elements_.get();
  }

  /// Frees what only long texts need.
  void release_if_large() noexcept {
    constexpr std::size_t kept_bytes = std::size_t{16} << 20;
    if (count_ > kept_bytes / sizeof(Element)) release();
  }

 private:
  void release() noexcept {
    elements_.reset();
    count_ = 0;
  }

  std::unique_ptr<Element[]> elements_;
  std::size_t count_ = 0;
};

/// Objects that are lent to one user at a time and kept for the next. Any thread may call.
template <typename Object>
class Pool {
 public:
  class Loan {
   public:
    explicit Loan(Pool& pool) : pool_(pool), object_(pool.take()) {}

    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    ~Loan() { pool_.put_back(std::move(object_)); }

    Object& operator*() const noexcept { return *object_; }

   private:
    Pool& pool_;
    std::unique_ptr<Object> object_;
  };

  Loan lend() { return Loan(*this); }

 private:
  std::unique_ptr<Object> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto object = std::move(free_.back());
        free_.pop_back();
        return object;
      }
      // Returning it must not allocate.
      free_.reserve(++created_);
    }
    return std::make_unique<Object>();
  }

  void put_back(std::unique_ptr<Object> object) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
  }

  std::mutex mutex_;
  std::size_t created_ = 0;
  std::vector<std::unique_ptr<Object>> free_;
};

}  // namespace gpux_cpu
