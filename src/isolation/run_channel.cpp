#include "isolation/run_channel.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error_number.h"
#include "base/memory_size.h"
#include "gpux/error.h"
#include "isolation/run_mark.h"

namespace gpux::isolation {

RunChannel::RunChannel(std::uint64_t number, UniqueFd socket, SharedMemoryBudget& budget)
    : number_(number), socket_(std::move(socket)), budget_(&budget) {}

std::shared_ptr<RunChannel::OutputBlock> RunChannel::make_block(std::uint64_t bytes) {
  if (!budget_->take(bytes)) return nullptr;
  try {
    return std::make_shared<OutputBlock>(SharedBlock::create(bytes));
  } catch (...) {
    budget_->give_back(bytes);
    throw;
  }
}

void RunChannel::choose_output() {
  std::size_t unused = outputs_.size(), largest = outputs_.size(), largest_bytes = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& block = outputs_.at(i);
    if (block == nullptr) {
      unused = std::min(unused, i);
    } else if (block->readers.load(std::memory_order_acquire) == 0 && block->memory.bytes().size() >= largest_bytes) {
      largest = i;
      largest_bytes = block->memory.bytes().size();
    }
  }
  // The memory of a block counts until the worker ends: what is there is used before more is made.
  if (largest != outputs_.size()) {
    slot_ = largest;
    return;
  }
  // There is one: has_another().
  slot_ = unused;
  outputs_.at(slot_) = make_block(max_copied_bytes);
  worker_has_output_.at(slot_) = false;
  if (outputs_.at(slot_) == nullptr) {
    throw refusal(ErrorCode::resource_exhausted,
                  fmt::format("the results of runs in a worker process take more than the {} that they may",
                              format_bytes(budget_->limit())));
  }
}

bool RunChannel::has_another() const noexcept {
  const std::size_t size = outputs_.at(slot_)->memory.bytes().size();
  const bool has_room = budget_->has(size);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& block = outputs_.at(i);
    if (i == slot_) continue;
    if (block == nullptr) {
      if (has_room) return true;
    } else if (block->readers.load(std::memory_order_acquire) == 0) {
      if (has_room || block->memory.bytes().size() >= size) return true;
    }
  }
  return false;
}

ResultsRefused RunChannel::refusal(ErrorCode code, const std::string& message) const {
  return {code, message, has_room_in_new_worker(budget_->limit(), taken_before_, max_copied_bytes, refused_bytes_)};
}

bool RunChannel::send(std::uint64_t run, const NamedValues& inputs, std::span<const std::size_t> outputs,
                      RunTarget target) {
  const EncodedValues encoded = encode_values(inputs, outputs);
  const std::size_t size = run_mark_bytes + encoded.place.bytes;
  if (size > input_.bytes().size()) {
    input_ = SharedBlock::create(size + size / 2);
    worker_has_input_ = false;
  }
  write_values(encoded, input_.bytes().subspan(run_mark_bytes).data());
  taken_before_ = budget_->taken();
  refused_bytes_ = 0;
  choose_output();
  const bool is_new_output = !worker_has_output_.at(slot_);
  std::array<int, max_descriptors> descriptors{};
  std::size_t count = 0;
  if (!worker_has_input_) descriptors.at(count++) = input_.descriptor();
  if (is_new_output) descriptors.at(count++) = outputs_.at(slot_)->memory.descriptor();
  const RunRequest request{.run = run,
                           .values = encoded.place,
                           .slot = static_cast<std::uint32_t>(slot_),
                           .has_new_input = static_cast<std::uint8_t>(worker_has_input_ ? 0 : 1),
                           .has_new_output = static_cast<std::uint8_t>(is_new_output ? 1 : 0),
                           .is_call = static_cast<std::uint8_t>(target == RunTarget::service ? 1 : 0)};
  if (!send_message(socket_.get(), request, std::span<const int>(descriptors).first(count))) return false;
  worker_has_input_ = worker_has_output_.at(slot_) = true;
  return true;
}

bool RunChannel::has_taken(std::uint64_t run) const noexcept {
  return isolation::has_taken(input_.bytes(), run);
}

bool RunChannel::give_memory(std::uint64_t run, std::uint64_t bytes) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 46;
  std::shared_ptr<OutputBlock> block;
  try {
    // Results grow in steps, and each step takes memory for good.
    if (bytes <= largest) block = make_block(bytes + bytes / 2);
    if (bytes <= largest && block == nullptr) block = make_block(bytes);
    if (block == nullptr) refused_bytes_ = bytes;
  } catch (const Error&) {
    block = nullptr;  // the worker says so in the run's error
  }
  if (block == nullptr) return answer({run}, {});
  const int descriptor = block->memory.descriptor();
  outputs_.at(slot_) = std::move(block);
  return answer({run}, std::span(&descriptor, 1));
}

bool RunChannel::answer(const RunMemory& answer, std::span<const int> descriptors) const {
  for (;;) {
    try {
      return send_message(socket_.get(), answer, descriptors);
    } catch (const Error&) {
      continue;
    }
  }
}

std::optional<NamedValues> RunChannel::receive(std::uint64_t run, const ExpectedValues& expected) {
  for (;;) {
    if (!receive_message(socket_.get(), message_)) return std::nullopt;
    const auto reply = message_.as<RunReply>();
    if (reply && reply->run == no_run && reply->error != 0) {
      is_served_ = false;
      throw Error(error_code_of(reply->error), message_.text_after(sizeof(RunReply)));
    }
    if (!reply || reply->run != run) throw Error(ErrorCode::internal, "a worker process answered something else");
    if (reply->wanted_bytes != 0) {
      if (!give_memory(run, reply->wanted_bytes)) return std::nullopt;
      continue;
    }
    if (reply->error == 0) {
      in_worker_ = std::chrono::nanoseconds(std::min<std::uint64_t>(reply->nanoseconds, INT64_MAX));
      return read(reply->values, expected);
    }
    const ErrorCode code = error_code_of(reply->error);
    const std::string text = message_.text_after(sizeof(RunReply));
    if (reply->lacks_memory != 0) {
      worker_has_input_ = false;
      worker_has_output_.fill(false);
    }
    if (reply->is_device_lost != 0) throw Error(code, {.kind = Subject::Kind::device, .name = {}}, text);
    if (refused_bytes_ != 0) throw refusal(code, text);
    throw Error(code, text);
  }
}

NamedValues RunChannel::read(const ValuesPlace& place, const ExpectedValues& expected) {
  const std::shared_ptr<OutputBlock>& block = outputs_.at(slot_);
  const std::span<const std::byte> bytes = block->memory.bytes();
  if (place.bytes > bytes.size()) {
    throw Error(ErrorCode::internal, "a worker process answered with less memory than it announced");
  }
  if (place.bytes <= max_copied_bytes || !has_another()) return read_values(bytes, place, nullptr, &expected).values;
  ++block->readers;
  const std::shared_ptr<const void> owner(
      bytes.data(), [block](const void*) { block->readers.fetch_sub(1, std::memory_order_release); });
  return read_values(bytes, place, owner, &expected).values;
}

}  // namespace gpux::isolation
