#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ort/api.h"
#include "ort/compute_turn.h"
#include "ort/declared_tensor.h"
#include "ort/empty_sequence.h"
#include "ort/message.h"
#include "ort/session.h"
#include "ort/staging.h"
#include "ort/value_place.h"

/// State that the sources of Session share.
namespace gpux::ort {

struct RunHandle::Options {
  Ort::RunOptions options;
  std::mutex mutex;
  Ort::Session* running = nullptr;  // with providers that may stop inside a node
  std::string name;                 // of the run; set once
  ComputeTurn* turn = nullptr;      // that staged runs take
  std::atomic<bool> is_stopped = false;
};

MemoryFacts facts_of(const Ort::ConstMemoryInfo& memory);

/// Whether ONNX Runtime says that an output has another shape than the memory that it was given.
bool is_about_preallocated_memory(std::string_view text);

/// Where all inputs, or all outputs, are.
struct ValuePlaces {
  std::vector<Place> places;
  std::vector<Ort::ConstMemoryInfo> memories;  // the session's own

  [[nodiscard]] Place of(std::size_t index) const noexcept {
    return index < places.size() ? places[index] : Place::host;
  }
};

struct Session::State {
  std::shared_lock<std::shared_mutex> unmapping{mapping_mutex(), std::defer_lock};  // while the session ends
  Ort::Session session;
  bool has_plugins = false;
  bool has_providers = false;  // other than the CPU's
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  SessionLog log;
  Ort::RunOptions run_options;  // for runs that nobody stops; ONNX Runtime only reads it
  ValuePlaces inputs, outputs;  // in the order of the names; empty where all are in host memory
  mutable CopyCounters copies;
  std::unique_ptr<Staging> staging;                               // null: runs copy inputs and outputs
  std::vector<DeclaredTensor> declared_inputs, declared_outputs;  // with staging
  mutable std::vector<std::atomic<bool>> is_misdeclared;          // with staging: of each output

  State(Ort::Session&& created, const SessionSettings& settings)
      : session(std::move(created)),
        has_plugins(std::ranges::any_of(
            settings.providers,
            [](const ProviderAppend& provider) { return provider.way == ProviderAppend::Way::by_device; })),
        has_providers(!settings.providers.empty()),
        input_names(session.GetInputNames()),
        output_names(session.GetOutputNames()),
        log{take_logged_error(), take_remarks()} {
    if (!settings.providers.empty()) find_places(settings);
  }

  ~State() { unmapping.lock(); }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Sessions map files when they are made, and unmap them until they end: shared by those, held alone while mappings
  /// are copied.
  static std::shared_mutex& mapping_mutex();

  /// `make`: makes the session. Afterwards it reads nothing of SessionSettings::changing_files any more.
  static std::shared_ptr<State> create(const SessionSettings& settings, const std::function<Ort::Session()>& make);

  /// Where the session has its inputs and outputs, and whether they are staged.
  void find_places(const SessionSettings& settings);
  void stage_values(const SessionSettings& settings);

  /// Whether the session takes that input from that memory, or makes that output in it.
  [[nodiscard]] bool has_input_in(const std::string& name, const MemoryFacts& memory) const;
  [[nodiscard]] bool has_output_in(const std::string& name, const MemoryFacts& memory) const;

  /// Indices of all outputs.
  [[nodiscard]] std::vector<std::size_t> all_outputs() const;

  /// The options of a run for `outputs`, with the handle's own if there is one; made in `own` where need be.
  [[nodiscard]] const Ort::RunOptions& options_of_run(RunHandle::Options* handle,
                                                      const std::vector<std::size_t>& outputs,
                                                      std::optional<Ort::RunOptions>& own) const;

  /// Whether a run leaves this output, an index into output_names, on its device.
  [[nodiscard]] bool stays_on_device(std::size_t output, Kept kept) const noexcept {
    const Place place = outputs.of(output);
    return place == Place::device || (kept == Kept::all && place == Place::other_device);
  }

  /// Whether the run has left this output, an index into output_names, as a tensor on the device.
  [[nodiscard]] bool is_tensor_of_device(std::size_t output, const Ort::Value& value) const {
    return outputs.of(output) == Place::device && value && value.IsTensor();
  }

  /// Counts the copies of a run between host and devices: inputs and outputs on the host whose place in the graph is a
  /// device.
  void count_input(const std::string& name, const Value& value) const;
  void count_inputs(const NamedValues& values) const;
  void count_outputs(const NamedValues& values) const;
  void count_output(std::size_t output, const Value& value) const;

  // A sequence without elements does not say itself of what type it is.
  [[nodiscard]] Ort::Value wrap_input(const std::string& name, const Value& value) const {
    const Sequence* sequence = value.sequence();
    if (sequence == nullptr || !sequence->values.empty()) return wrap(value);
    const auto found = std::find(input_names.begin(), input_names.end(), name);
    if (found == input_names.end()) return wrap(value);
    return empty_sequence(session.GetInputTypeInfo(static_cast<std::size_t>(found - input_names.begin())));
  }
};

/// While it lives, the handle knows which session to tell.
class Session::StoppableRun {
 public:
  StoppableRun(RunHandle::Options* handle, Ort::Session& session) : handle_(handle) {
    if (handle_ == nullptr) return;
    static std::atomic<std::uint64_t> count = 0;
    if (handle_->name.empty()) handle_->name = std::to_string(++count);
    handle_->options.AddConfigEntry(RunHandle::run_name_option, handle_->name.c_str());
    const std::scoped_lock lock(handle_->mutex);
    handle_->running = &session;
  }

  ~StoppableRun() {
    if (handle_ == nullptr) return;
    const std::scoped_lock lock(handle_->mutex);
    handle_->running = nullptr;
  }

  StoppableRun(const StoppableRun&) = delete;
  StoppableRun& operator=(const StoppableRun&) = delete;

 private:
  RunHandle::Options* handle_;
};

}  // namespace gpux::ort
