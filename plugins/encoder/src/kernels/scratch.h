#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpux_encoder {

/// A buffer that keeps its room. What is in it is lost where it grows.
template <typename Element>
class Room {
 public:
  Element* of(std::size_t count) {
    if (elements_.size() < count) elements_.resize(count);
    return elements_.data();
  }

 private:
  std::vector<Element> elements_;
};

/// What is lent to one user at a time and kept for the next. Any thread may call.
template <typename Thing>
class Pool {
 public:
  class Loan {
   public:
    explicit Loan(Pool& pool) : pool_(pool), thing_(pool.take()) {}

    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    ~Loan() { pool_.give_back(std::move(thing_)); }

    Thing& operator*() const noexcept { return *thing_; }

   private:
    Pool& pool_;
    std::unique_ptr<Thing> thing_;
  };

  Loan lend() { return Loan(*this); }

 private:
  std::unique_ptr<Thing> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto thing = std::move(free_.back());
        free_.pop_back();
        return thing;
      }
      // So that giving it back needs no memory.
      free_.reserve(++lent_);
    }
    return std::make_unique<Thing>();
  }

  void give_back(std::unique_ptr<Thing> thing) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(thing));
  }

  std::mutex mutex_;
  std::size_t lent_ = 0;  // all there are
  std::vector<std::unique_ptr<Thing>> free_;
};

}  // namespace gpux_encoder
