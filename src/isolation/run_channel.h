#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "isolation/message_socket.h"
#include "isolation/shared_block.h"
#include "isolation/shared_memory_budget.h"
#include "isolation/value_encoding.h"

namespace gpux::isolation {

/// The error of a run whose results the budget of its worker has no room for.
class ResultsRefused : public Error {
 public:
  ResultsRefused(ErrorCode code, const std::string& message, bool fit_new_worker)
      : Error(code, message), fit_new_worker_(fit_new_worker) {}

  /// has_room_in_new_worker().
  [[nodiscard]] bool fit_new_worker() const noexcept { return fit_new_worker_; }

 private:
  bool fit_new_worker_;
};

/// What runs in a worker.
enum class RunTarget : std::uint8_t {
  model,
  service,  ///< what the worker has beside the model: RemoteSession::call()
};

/// One run at a time in a worker: a socket, memory for the inputs, and memory for the outputs. Used by one thread at a
/// time.
class RunChannel {
 public:
  /// `budget`: of the worker, for all its channels; has to outlive this.
  RunChannel(std::uint64_t number, UniqueFd socket, SharedMemoryBudget& budget);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

  /// False: the worker has no thread for it.
  [[nodiscard]] bool is_served() const noexcept { return is_served_; }

  /// Copies the inputs to the shared memory and tells the worker. `target`: what runs there; the outputs are those of a
  /// model. False if the worker has ended: it never saw the run.
  /// True does not mean that it has seen it: has_taken().
  /// Errors ResultsRefused, resource_exhausted: it was not sent, and the channel can be used again.
  [[nodiscard]] bool send(std::uint64_t run, const NamedValues& inputs, std::span<const std::size_t> outputs,
                          RunTarget target = RunTarget::model);

  /// Waits for the end of the run, and gives the worker the memory that it asks for within the budget. `expected`: the
  /// outputs of the model that were asked for. Empty if the worker has ended. Results own their memory: small ones are
  /// copied, larger ones refer to the shared memory, which is not used again while they exist, unless all of the
  /// channel's memory is in use so.
  /// Errors are those of the run, ResultsRefused among them, and those of ort::is_lost_device() of a worker that can no
  /// longer use its device; internal if the worker's answer makes no sense.
  [[nodiscard]] std::optional<NamedValues> receive(std::uint64_t run, const ExpectedValues& expected);

  /// How long the worker had the run that receive() returned last, as it says.
  [[nodiscard]] std::chrono::nanoseconds in_worker() const noexcept { return in_worker_; }

  /// Whether the worker has begun this run, the last one that was sent. Only after the worker's end.
  [[nodiscard]] bool has_taken(std::uint64_t run) const noexcept;

  /// Results of up to this many bytes are copied: a mapping costs more.
  static constexpr std::size_t max_copied_bytes = std::size_t{64} * 1024;

 private:
  struct OutputBlock {
    SharedBlock memory;
    std::atomic<std::uint32_t> readers = 0;  // sets of results that refer to it
  };

  /// Null: the budget is used up.
  std::shared_ptr<OutputBlock> make_block(std::uint64_t bytes);
  /// Takes a block without readers to slot_.
  void choose_output();
  /// Whether results in the block of slot_ may stay there: the next run can have another block of that size.
  [[nodiscard]] bool has_another() const noexcept;
  [[nodiscard]] ResultsRefused refusal(ErrorCode code, const std::string& message) const;
  /// A larger block for the run. False if the worker has ended.
  [[nodiscard]] bool give_memory(std::uint64_t run, std::uint64_t bytes);
  /// send_message() that waits for room as long as it takes: the worker waits for the message.
  [[nodiscard]] bool answer(const RunMemory& answer, std::span<const int> descriptors) const;
  NamedValues read(const ValuesPlace& place, const ExpectedValues& expected);

  std::uint64_t number_;
  UniqueFd socket_;
  SharedMemoryBudget* budget_;
  bool is_served_ = true;
  SharedBlock input_ = SharedBlock::create(0);
  bool worker_has_input_ = false;
  std::array<bool, max_output_blocks> worker_has_output_{};
  std::array<std::shared_ptr<OutputBlock>, max_output_blocks> outputs_;
  std::size_t slot_ = 0;
  // Of the run in progress.
  std::uint64_t taken_before_ = 0;  // of the budget
  std::uint64_t refused_bytes_ = 0;
  ReceivedMessage message_;
  std::chrono::nanoseconds in_worker_{0};
};

}  // namespace gpux::isolation
