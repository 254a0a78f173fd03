#include "runtime/worker.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/format_message.h"
#include "base/home.h"
#include "base/memory_size.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "isolation/load_message.h"
#include "isolation/message_socket.h"
#include "isolation/output_forms.h"
#include "isolation/run_mark.h"
#include "isolation/sandbox.h"
#include "isolation/shared_block.h"
#include "isolation/value_encoding.h"
#include "isolation/worker_protocol.h"
#include "ort/lost_device.h"
#include "provider/placement.h"
#include "runtime/scheduling/session_replica.h"
#include "runtime/session/stop_handle.h"

namespace gpux::runtime {
namespace {

// An owner for tensors whose memory outlives them.
const std::shared_ptr<const void>& not_owned() {
  static const std::shared_ptr<const void> owner = std::make_shared<int>();
  return owner;
}

// The process that started this one ends it; signals that go to the whole group are for that one.
void depend_on_parent() {
  ::prctl(PR_SET_NAME, "gpux-worker");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_IGN);
  // Where memory runs out, the kernel ends a worker rather than the server.
  const UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) (void)!::write(score.get(), "500", 3);
}

/// The turns that runs of all channels take to compute; none until they are limited.
class Turns {
 public:
  void limit(std::size_t runs) {
    const std::lock_guard lock(mutex_);
    if (runs != 0) turn_ = std::make_shared<ort::ComputeTurn>(runs);
  }

  [[nodiscard]] std::shared_ptr<ort::ComputeTurn> now() const {
    const std::lock_guard lock(mutex_);
    return turn_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<ort::ComputeTurn> turn_;
};

/// The service beside the model, for the calls of all channels: one at a time.
class SharedService {
 public:
  explicit SharedService(std::unique_ptr<WorkerService> service) : service_(std::move(service)) {}

  [[nodiscard]] NamedValues call(const NamedValues& inputs) {
    const std::lock_guard lock(calls_);
    return service_->call(inputs);
  }

  void stop() { service_->stop(); }

 private:
  std::mutex calls_;
  const std::unique_ptr<WorkerService> service_;
};

/// One run at a time, on a thread of its own.
class Channel {
 public:
  Channel(const Runtime& runtime, std::shared_ptr<const Turns> turns, std::shared_ptr<SharedService> service,
          UniqueFd socket)
      : replica_(runtime),
        service_(std::move(service)),
        has_device_(provider::can_lose_device(runtime.verdict())),
        turns_(std::move(turns)),
        socket_(std::move(socket)) {}

  // Returns when the other end is closed.
  void serve() {
    isolation::ReceivedMessage message;
    while (isolation::receive_message(socket_.get(), message)) {
      const auto request = message.as<isolation::RunRequest>();
      if (!request) return;
      const auto taken = std::chrono::steady_clock::now();
      isolation::RunReply reply{.run = request->run};
      std::string text;
      lacks_memory_ = true;
      try {
        take_blocks(*request, message);
        lacks_memory_ = false;
        reply.values = run(*request);
      } catch (const Error& error) {
        reply.error = static_cast<std::int32_t>(error.code());
        reply.is_device_lost = has_device_ && ort::is_lost_device(error) ? 1 : 0;
        text = error.message();
      } catch (const std::bad_alloc&) {
        reply.error = static_cast<std::int32_t>(ErrorCode::resource_exhausted);
        text = "out of memory";
      } catch (const std::exception& error) {
        reply.error = static_cast<std::int32_t>(ErrorCode::internal);
        text = error.what();
      }
      if (lacks_memory_) {
        reply.lacks_memory = 1;
        forget_blocks();
      }
      const auto took = std::chrono::steady_clock::now() - taken;
      reply.nanoseconds = static_cast<std::uint64_t>(std::chrono::nanoseconds(took).count());
      if (!send(reply, text)) return;
    }
  }

  // In place of serve(): tells the other process that no run of this channel will be served.
  void refuse(const Error& error) {
    is_refused_ = true;
    const isolation::RunReply reply{
        .run = isolation::no_run, .values = {}, .error = static_cast<std::int32_t>(error.code())};
    (void)send(reply, error.message());
  }

  // Whether it was refused, and the other process has closed its end.
  [[nodiscard]] bool is_over() const noexcept {
    pollfd watched{socket_.get(), 0, 0};
    return is_refused_ && ::poll(&watched, 1, 0) == 1;
  }

  // From another thread. May come before the run itself.
  void stop(std::uint64_t run) {
    const std::lock_guard lock(mutex_);
    stopped_ = run;
    if (running_ != run) return;
    if (handle_ == nullptr) return service_->stop();
    handle_->stop();
  }

 private:
  void take_blocks(const isolation::RunRequest& request, isolation::ReceivedMessage& message) {
    std::size_t next = 0;
    if (request.has_new_input != 0)
      input_ = std::make_unique<isolation::SharedBlock>(std::move(message.descriptors.at(next++)));
    if (request.has_new_output != 0 && request.slot < isolation::max_output_blocks) {
      outputs_.insert_or_assign(request.slot, isolation::SharedBlock(std::move(message.descriptors.at(next))));
    }
    const std::size_t needed = isolation::run_mark_bytes + request.values.bytes;
    if (!input_ || input_->bytes().size() < needed || !outputs_.contains(request.slot)) {
      throw Error(ErrorCode::internal, "a run came to a worker process without its memory");
    }
    isolation::mark_taken(input_->bytes(), request.run);
  }

  // False if the other end is closed. It waits for the reply: without room for it, this does, too.
  [[nodiscard]] bool send(const isolation::RunReply& reply, const std::string& text) const {
    for (;;) {
      try {
        return isolation::send_with_text(socket_.get(), reply, text);
      } catch (const Error&) {
        continue;
      }
    }
  }

  // A block that could not be mapped, or did not come, would be missing in all later runs: all come again.
  void forget_blocks() {
    input_.reset();
    outputs_.clear();
  }

  isolation::ValuesPlace run(const isolation::RunRequest& request) {
    const bool is_call = request.is_call != 0;
    StopHandle handle(RunPlaces::here);
    const std::shared_ptr<ort::ComputeTurn> turn = turns_->now();
    if (turn != nullptr) handle.here()->take_turns(*turn);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ == request.run) throw Error(ErrorCode::interrupted, "the run was stopped");
      running_ = request.run;
      handle_ = is_call ? nullptr : &handle;
    }
    const auto forget = [this](StopHandle*) {
      const std::lock_guard lock(mutex_);
      running_ = 0;
      handle_ = nullptr;
    };
    const std::unique_ptr<StopHandle, decltype(forget)> running(&handle, forget);
    const isolation::RunInputs inputs =
        isolation::read_values(input_->bytes().subspan(isolation::run_mark_bytes), request.values, not_owned());
    isolation::SharedBlock& output = outputs_.at(request.slot);
    run_ = request.run;
    std::size_t prepared = 0;
    const NamedValues results = is_call ? service_->call(inputs.values) : run(inputs, output, prepared, handle);
    isolation::EncodedValues encoded = isolation::encode_values(results, {}, output.bytes(), prepared);
    if (encoded.place.bytes > output.bytes().size()) {
      encoded = isolation::encode_values(results);
      const isolation::SharedBlock smaller =
          std::exchange(output, larger_block(encoded.place.bytes));  // may hold results
      isolation::write_values(encoded, output.bytes().data());
      return encoded.place;
    }
    isolation::write_values(encoded, output.bytes().data());
    return encoded.place;
  }

  // From the other process, which limits what all runs take. Error resource_exhausted.
  isolation::SharedBlock larger_block(std::size_t bytes) {
    isolation::ReceivedMessage message;
    // The other process takes it for this run's memory from now on, whether it comes or not.
    lacks_memory_ = true;
    const isolation::RunReply wish{.run = run_, .values = {}, .wanted_bytes = bytes};
    if (!isolation::send_message(socket_.get(), wish) || !isolation::receive_message(socket_.get(), message)) {
      throw Error(ErrorCode::internal, "the process that asked for a run has gone");
    }
    if (!message.descriptors.front()) {
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("the results take {}, and there is less memory for results", format_bytes(bytes)));
    }
    isolation::SharedBlock block(std::move(message.descriptors.front()));
    lacks_memory_ = false;
    return block;
  }

  // ONNX Runtime writes large outputs right to the shared memory, its first `prepared` bytes.
  NamedValues run(const isolation::RunInputs& inputs, isolation::SharedBlock& output, std::size_t& prepared,
                  StopHandle& handle) {
    if (const isolation::RunForms* forms = forms_.find(inputs.values, inputs.outputs)) {
      const std::vector<std::optional<Tensor>> places = prepare(inputs.outputs, *forms, output, prepared);
      try {
        if (prepared != 0) return replica_.run(inputs.values, inputs.outputs, handle, places);
      } catch (const ort::OtherShape&) {
        prepared = 0;
        forms_.give_up();
      }
    }
    NamedValues results = replica_.run(inputs.values, inputs.outputs, handle);
    forms_.note(inputs.values, inputs.outputs, results);
    return results;
  }

  std::vector<std::optional<Tensor>> prepare(const std::vector<std::size_t>& outputs, const isolation::RunForms& forms,
                                             isolation::SharedBlock& block, std::size_t& prepared) {
    // To copy fewer costs less than to prepare memory.
    constexpr std::size_t min_bytes = std::size_t{16} * 1024;
    constexpr std::size_t alignment = 64;
    std::vector<std::optional<Tensor>> places(outputs.size());
    std::vector<std::size_t> offsets(outputs.size());
    const auto form_of = [&](std::size_t i) -> const isolation::OutputForm* {
      if (i >= forms.size() || !replica_.can_place(outputs[i])) return nullptr;
      const std::optional<isolation::OutputForm>& form = forms[i];
      return form && form->bytes >= min_bytes ? &*form : nullptr;
    };
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const isolation::OutputForm* form = form_of(i);
      if (form == nullptr) continue;
      offsets[i] = prepared;
      prepared = (prepared + form->bytes + alignment - 1) / alignment * alignment;
    }
    if (prepared == 0) return places;
    constexpr std::size_t room_for_head = 4096;
    if (prepared + room_for_head > block.bytes().size()) block = larger_block(prepared + room_for_head);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const isolation::OutputForm* form = form_of(i);
      if (form == nullptr) continue;
      places[i] = Tensor::borrow(form->type, form->shape, block.bytes().subspan(offsets[i], form->bytes), not_owned());
    }
    return places;
  }

  SessionReplica replica_;
  const std::shared_ptr<SharedService> service_;
  const bool has_device_;
  std::shared_ptr<const Turns> turns_;
  UniqueFd socket_;
  bool is_refused_ = false;
  std::uint64_t run_ = 0;      // the one in progress
  bool lacks_memory_ = false;  // what the other process has sent is not all here
  std::unique_ptr<isolation::SharedBlock> input_;
  std::map<std::uint32_t, isolation::SharedBlock> outputs_;
  isolation::OutputForms forms_;

  std::mutex mutex_;
  std::uint64_t running_ = 0, stopped_ = 0;
  StopHandle* handle_ = nullptr;  // of the run that is running; null: it is a call
};

std::size_t index_of_weights(const Runtime& runtime, const isolation::WorkerLoad& request) {
  const auto& variants = request.options.precision_variants;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].file == runtime.weights_file()) return i + 1;
  }
  return 0;
}

isolation::LoadReport report_of(const Runtime& runtime, const isolation::WorkerLoad& request) {
  const SessionReplica replica(runtime);
  return {.verdict = runtime.verdict(),
          .weights = index_of_weights(runtime, request),
          .computed_by = replica.computed_by(),
          .output_names = replica.output_names(),
          .placement = runtime.placement(),
          .uses_pinned_memory = runtime.uses_pinned_memory(),
          .identity = replica.identity(),
          .stored_caches = replica.stored_caches()};
}

// Says so before anything else runs here, which might say something else. False if the other end is closed.
bool enter_sandbox(int control, const isolation::WorkerLoad& request) {
  if (request.options.sandbox == Sandbox::off) return true;
  const isolation::SandboxReport report = isolation::apply_sandbox(
      isolation::plan_sandbox(isolation::find_sandbox_facts(request)), request.options.sandbox);
  const isolation::LoadReply reply{.kind = isolation::LoadReply::Kind::sandbox,
                                   .memory_bytes = report.memory_bytes.value_or(0)};
  return isolation::send_with_text(control, reply, to_line(report));
}

// Null if it failed, which was reported to the other end.
std::unique_ptr<const Runtime> load(int control, int file) {
  Error failure(ErrorCode::internal, "");
  try {
    isolation::WorkerLoad request = isolation::worker_load_from(isolation::text_of_file(file));
    if (!enter_sandbox(control, request)) return nullptr;
    request.options.sandbox = Sandbox::off;  // of sessions in this process
    auto runtime = std::make_unique<const Runtime>(request.model, request.options);
    const std::string report = to_json(report_of(*runtime, request));
    const isolation::LoadReply reply{.kind = isolation::LoadReply::Kind::report, .bytes = report.size()};
    bool is_sent = false;
    try {
      is_sent = isolation::send_message(control, reply) && isolation::send_text(control, report);
    } catch (const Error&) {
      // Another reply would be taken for a part of the report.
    }
    return is_sent ? std::move(runtime) : nullptr;
  } catch (const Error& error) {
    failure = error;
  } catch (const std::bad_alloc&) {
    failure = Error(ErrorCode::resource_exhausted, "out of memory");
  } catch (const std::exception& error) {
    failure = Error(ErrorCode::internal, error.what());
  }
  const isolation::LoadReply reply{.kind = isolation::LoadReply::Kind::failure,
                                   .error = static_cast<std::int32_t>(failure.code())};
  (void)isolation::send_with_text(control, reply, failure.message());
  return nullptr;
}

std::string of_another_build() {
  return fmt::format(
      "the gpux program '{}' is of another build than the library that starts it as a worker: install both "
      "from one package, or name another one in GPUX_PROGRAM",
      executable_path().string());
}

// Until the other end is closed.
void obey(int control, const Runtime& runtime, const MakeWorkerService& make_service) {
  const auto service = std::make_shared<SharedService>(make_service(runtime));
  std::map<std::uint64_t, std::shared_ptr<Channel>> channels;
  const auto turns = std::make_shared<Turns>();
  isolation::ReceivedMessage message;
  while (isolation::receive_message(control, message)) {
    const auto command = message.as<isolation::WorkerCommand>();
    if (!command) return;
    if (command->kind == isolation::WorkerCommand::Kind::open_channel) {
      std::erase_if(channels, [](const auto& entry) { return entry.second->is_over(); });
      auto channel = std::make_shared<Channel>(runtime, turns, service, std::move(message.descriptors.front()));
      channels.insert_or_assign(command->channel, channel);
      try {
        start_thread([channel] { channel->serve(); }).detach();
      } catch (const Error& error) {
        channel->refuse(error);
      }
    } else if (command->kind == isolation::WorkerCommand::Kind::stop_run) {
      if (const auto found = channels.find(command->channel); found != channels.end()) {
        found->second->stop(command->run);
      }
    } else if (command->kind == isolation::WorkerCommand::Kind::limit_computing) {
      turns->limit(command->computing);
    }
  }
}

}  // namespace

void run_worker(int socket, const MakeWorkerService& make_service, std::string_view protocol) {
  const UniqueFd control(socket);
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    throw Error(ErrorCode::usage, format_message("'gpux worker' is started by 'gpux serve {} process' alone",
                                                 setting_named("isolation")));
  }
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  depend_on_parent();
  isolation::ReceivedMessage message;
  if (isolation::receive_message(socket, message)) {
    const auto command = message.as<isolation::WorkerCommand>();
    // A parent that ended before depend_on_parent() sent no signal.
    const bool is_orphan = !command || ::getppid() != command->parent;
    if (!is_orphan && protocol != isolation::worker_protocol) {
      const isolation::LoadReply reply{.kind = isolation::LoadReply::Kind::failure,
                                       .error = static_cast<std::int32_t>(ErrorCode::usage)};
      (void)isolation::send_with_text(socket, reply, of_another_build());
    } else if (!is_orphan) {
      if (const auto runtime = load(socket, message.descriptors.front().get())) obey(socket, *runtime, make_service);
    }
  }
  ::_exit(0);  // runs may be in progress
}

}  // namespace gpux::runtime
