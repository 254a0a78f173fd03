#include "server/grpc/methods.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/home.h"
#include "base/utf8_prefix.h"
#include "server/grpc/health.h"
#include "server/grpc/infer_run.h"
#include "server/grpc/infer_stream.h"
#include "server/models/probe.h"
#include "server/protocols/open_inference/messages.h"

namespace gpux::server {
namespace {

using AnswerTo = std::shared_ptr<Answer>;
using ::grpc::ByteBuffer;

template <typename Message>
std::shared_ptr<Message> read(const AnswerTo& answer, ByteBuffer& request) {
  return read_message<Message>(answer->call(), request);
}

ModelRepository& repository_of(const AnswerTo& answer) {
  return answer->call().state()->repository;
}

void server_live(const AnswerTo& answer, ByteBuffer& request) {
  (void)read<inference::ServerLiveRequest>(answer, request);
  inference::ServerLiveResponse response;
  response.set_live(true);
  answer->respond(write_message(response));
}

void server_ready(const AnswerTo& answer, ByteBuffer& request) {
  (void)read<inference::ServerReadyRequest>(answer, request);
  const auto tell = [answer](bool ready) {
    inference::ServerReadyResponse response;
    response.set_ready(ready);
    answer->respond(write_message(response));
  };
  const CallState& state = *answer->call().state();
  if (!state.ready) {
    tell(false);
  } else {
    probe_all(state.repository, state.options.probe, [tell](const std::string& failed) { tell(failed.empty()); });
  }
}

void model_ready(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::ModelReadyRequest>(answer, request);
  const auto tell = [answer](bool ready) {
    inference::ModelReadyResponse response;
    response.set_ready(ready);
    answer->respond(write_message(response));
  };
  const CallState& state = *answer->call().state();
  if (!state.ready) {
    tell(false);
    return;
  }
  try {
    probe(state.repository, asked->name(), asked->version(), state.options.probe, tell);
  } catch (const Error&) {
    // Also of one that does not exist, as Triton has it: clients wait in a loop for what is to come.
    tell(false);
  }
}

void server_metadata(const AnswerTo& answer, ByteBuffer& request) {
  (void)read<inference::ServerMetadataRequest>(answer, request);
  inference::ServerMetadataResponse response;
  response.set_name("gpux");
  response.set_version(std::string(gpux::version()));
  for (const std::string_view extension : extensions) {
    // The one that is about JSON.
    if (extension != "binary_tensor_data") response.add_extensions(std::string(extension));
  }
  if (answer->call().state()->options.shared_regions != nullptr) {
    response.add_extensions(std::string(shared_memory_extension));
  }
  answer->respond(write_message(response));
}

void model_metadata(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::ModelMetadataRequest>(answer, request);
  const auto model = repository_of(answer).description(asked->name(), asked->version());
  inference::ModelMetadataResponse response;
  response.set_name(model->name);
  for (const std::string& version : repository_of(answer).versions(model->name)) response.add_versions(version);
  response.set_platform("onnx_onnxv1");
  const auto write = [](const SignatureEntry& entry, inference::ModelMetadataResponse::TensorMetadata& written) {
    written.set_name(entry.name);
    const std::string_view datatype =
        entry.type.kind == ValueKind::tensor ? datatype_of(entry.type.element) : std::string_view();
    written.set_datatype(datatype.empty() ? to_string(entry.type) : std::string(datatype));
    if (!entry.type.dimensions) return;
    for (const Dimension& dimension : *entry.type.dimensions) written.add_shape(dimension.size.value_or(-1));
  };
  for (const SignatureEntry& entry : model->signature.inputs) write(entry, *response.add_inputs());
  for (const SignatureEntry& entry : model->signature.outputs) write(entry, *response.add_outputs());
  answer->respond(write_message(response));
}

inference::DataType config_type(const ValueType& type) {
  if (type.kind != ValueKind::tensor) return inference::TYPE_INVALID;
  const std::string_view datatype = datatype_of(type.element);
  if (datatype == "BYTES") return inference::TYPE_STRING;
  inference::DataType found = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + std::string(datatype), &found);
  return found;
}

void model_config(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::ModelConfigRequest>(answer, request);
  const auto model = repository_of(answer).description(asked->name(), asked->version());
  inference::ModelConfigResponse response;
  inference::ModelConfig& config = *response.mutable_config();
  config.set_name(model->name);
  config.set_platform("onnx_onnxv1");
  config.set_backend("onnxruntime");
  if (model->can_batch) {
    config.set_max_batch_size(
        static_cast<std::int32_t>(std::min<std::int64_t>(model->options.max_batch_size, INT32_MAX)));
    config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(
        static_cast<std::uint64_t>(model->options.max_queue_delay.count()));
  }
  const auto dims = [&](const ValueType& type, auto& written) {
    if (!type.dimensions) return;
    const std::size_t first = model->can_batch ? 1 : 0;
    for (std::size_t i = first; i < type.dimensions->size(); ++i) {
      written.add_dims((*type.dimensions)[i].size.value_or(-1));
    }
  };
  for (const SignatureEntry& entry : model->signature.inputs) {
    inference::ModelInput& written = *config.add_input();
    written.set_name(entry.name);
    written.set_data_type(config_type(entry.type));
    written.set_optional(!entry.required);
    dims(entry.type, written);
  }
  for (const SignatureEntry& entry : model->signature.outputs) {
    inference::ModelOutput& written = *config.add_output();
    written.set_name(entry.name);
    written.set_data_type(config_type(entry.type));
    dims(entry.type, written);
  }
  answer->respond(write_message(response));
}

void set_duration(inference::StatisticDuration& written, std::uint64_t count, std::chrono::nanoseconds sum) {
  written.set_count(count);
  written.set_ns(static_cast<std::uint64_t>(sum.count()));
}

void set_duration(inference::StatisticDuration& written, const Histogram& histogram) {
  set_duration(written, histogram.count(), histogram.sum());
}

void write_statistics(const ModelDescription& model, inference::ModelStatistics& written) {
  const ModelStatistics& counts = *model.statistics;
  written.set_name(model.name);
  written.set_version(model.version);
  written.set_last_inference(static_cast<std::uint64_t>(epoch_milliseconds(counts.last_success)));
  written.set_inference_count(counts.rows);
  written.set_execution_count(counts.runs);
  inference::InferStatistics& sums = *written.mutable_inference_stats();
  set_duration(*sums.mutable_success(), counts.succeeded, counts.total.sum());
  set_duration(*sums.mutable_fail(), counts.failures(), counts.failure.sum());
  set_duration(*sums.mutable_queue(), counts.queue);
  set_duration(*sums.mutable_compute_input(), counts.input);
  set_duration(*sums.mutable_compute_infer(), counts.compute);
  set_duration(*sums.mutable_compute_output(), counts.output);
  for (const auto& [rows, batch] : counts.batches()) {
    inference::InferBatchStatistics& row = *written.add_batch_stats();
    row.set_batch_size(static_cast<std::uint64_t>(rows));
    set_duration(*row.mutable_compute_input(), batch.runs, batch.input);
    set_duration(*row.mutable_compute_infer(), batch.runs, batch.compute);
    set_duration(*row.mutable_compute_output(), batch.runs, batch.output);
  }
}

void model_statistics(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::ModelStatisticsRequest>(answer, request);
  inference::ModelStatisticsResponse response;
  if (!asked->name().empty()) {
    write_statistics(*repository_of(answer).description(asked->name(), asked->version()), *response.add_model_stats());
  } else {
    for (const auto& model : repository_of(answer).descriptions())
      write_statistics(*model, *response.add_model_stats());
  }
  answer->respond(write_message(response));
}

void model_infer(const AnswerTo& answer, ByteBuffer& request) {
  const Call& call = answer->call();
  const RequestWork work = call.work();
  const auto run = std::make_shared<InferRun>(
      read<inference::ModelInferRequest>(answer, request), work, call.arrived(), call.state()->options.shared_regions,
      [answer, deadline = work.deadline](const std::optional<InferRun::Failure>& failure, const InferMessage& message) {
        if (failure && failure->refusal) {
          answer->refuse(*failure->refusal, failure->error.message());
        } else if (failure) {
          answer->fail(failure->error);
        } else {
          answer->respond(unary_answer(message), deadline.time());
        }
      });
  run->start(call.state()->repository);
  answer->on_gone([run] { run->cancel(); });
}

void repository_index(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::RepositoryIndexRequest>(answer, request);
  inference::RepositoryIndexResponse response;
  for (const ModelStatus& status : repository_of(answer).index()) {
    if (asked->ready() && !is_serving(status.state)) continue;
    auto& written = *response.add_models();
    written.set_name(status.name);
    written.set_version(status.version);
    written.set_state(std::string(repository_state(status.state)));
    written.set_reason(status.reason);
  }
  answer->respond(write_message(response));
}

template <typename Request>
void refuse_other_parameters(const Request& request, std::string_view accepted) {
  for (const auto& [name, value] : request.parameters()) {
    if (name == accepted) continue;
    throw Error(
        ErrorCode::invalid_input,
        fmt::format("parameters.{} is not supported: files of models are on the server's disk", utf8_prefix(name, 60)));
  }
}

// What it is asked to do with a model, for the record.
std::shared_ptr<AuditedChange> audit(const AnswerTo& answer, std::string action, std::string model) {
  const Call& call = answer->call();
  return std::make_shared<AuditedChange>(call.state()->options.audit, AuditEntry{.action = std::move(action),
                                                                                 .model = std::move(model),
                                                                                 .target = {},
                                                                                 .digest = {},
                                                                                 .caller = call.caller(),
                                                                                 .result = {},
                                                                                 .reason = {}});
}

template <typename Response>
void answer_change(const Answer& answer, const std::optional<Error>& error) {
  if (error) {
    answer.fail(*error);
  } else {
    answer.respond(write_message(Response()));
  }
}

void repository_load(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::RepositoryModelLoadRequest>(answer, request);
  refuse_other_parameters(*asked, "config");
  std::optional<std::string> config;
  if (const auto given = asked->parameters().find("config"); given != asked->parameters().end()) {
    if (!given->second.has_string_param()) {
      throw Error(ErrorCode::invalid_input, "parameters.config is a string with JSON in it");
    }
    config = given->second.string_param();
  }
  const std::string& name = asked->model_name();
  ModelRepository& repository = repository_of(answer);
  const auto change = audit(answer, "load", name);
  audited(*change, [&] {
    repository.load(
        name, answer->call().deadline(),
        [answer, change, name, &repository](const std::optional<Error>& error) {
          answer_change<inference::RepositoryModelLoadResponse>(*answer, change->end(error, repository.digest(name)));
        },
        config);
  });
}

void repository_unload(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::RepositoryModelUnloadRequest>(answer, request);
  // No model of gpux depends on another.
  refuse_other_parameters(*asked, "unload_dependents");
  const std::string& name = asked->model_name();
  const auto change = audit(answer, "unload", name);
  audited(*change, [&] {
    repository_of(answer).unload(
        name, [answer, change, digest = repository_of(answer).digest(name)](const std::optional<Error>& error) {
          answer_change<inference::RepositoryModelUnloadResponse>(*answer, change->end(error, digest));
        });
  });
}

// The methods are there where it is.
SharedRegions& regions_of(const AnswerTo& answer) {
  return *answer->call().state()->options.shared_regions;
}

void shared_memory_status(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::SystemSharedMemoryStatusRequest>(answer, request);
  const SharedRegions& regions = regions_of(answer);
  inference::SystemSharedMemoryStatusResponse response;
  for (const SharedRegionPlace& place :
       asked->name().empty() ? regions.all() : std::vector{regions.find(asked->name())->place()}) {
    auto& written = (*response.mutable_regions())[place.name];
    written.set_name(place.name);
    written.set_key(place.key);
    written.set_offset(place.offset);
    written.set_byte_size(place.byte_size);
  }
  answer->respond(write_message(response));
}

void shared_memory_register(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::SystemSharedMemoryRegisterRequest>(answer, request);
  regions_of(answer).add(
      {.name = asked->name(), .key = asked->key(), .offset = asked->offset(), .byte_size = asked->byte_size()});
  answer->respond(write_message(inference::SystemSharedMemoryRegisterResponse()));
}

void shared_memory_unregister(const AnswerTo& answer, ByteBuffer& request) {
  const auto asked = read<inference::SystemSharedMemoryUnregisterRequest>(answer, request);
  if (asked->name().empty()) {
    regions_of(answer).remove_all();
  } else {
    regions_of(answer).remove(asked->name());
  }
  answer->respond(write_message(inference::SystemSharedMemoryUnregisterResponse()));
}

constexpr Method inference_table[] = {
    {"/inference.GRPCInferenceService/ServerLive", KeyNeed::none, server_live, nullptr},
    {"/inference.GRPCInferenceService/ServerReady", KeyNeed::none, server_ready, nullptr},
    {"/inference.GRPCInferenceService/ModelReady", KeyNeed::none, model_ready, nullptr},
    {"/inference.GRPCInferenceService/ServerMetadata", KeyNeed::any, server_metadata, nullptr},
    {"/inference.GRPCInferenceService/ModelMetadata", KeyNeed::any, model_metadata, nullptr},
    {"/inference.GRPCInferenceService/ModelInfer", KeyNeed::any, model_infer, nullptr, "unary", true},
    {"/inference.GRPCInferenceService/ModelStreamInfer", KeyNeed::any, nullptr, make_infer_stream, "bidi_stream"},
    {"/inference.GRPCInferenceService/ModelConfig", KeyNeed::any, model_config, nullptr},
    {"/inference.GRPCInferenceService/ModelStatistics", KeyNeed::any, model_statistics, nullptr},
    {"/inference.GRPCInferenceService/RepositoryIndex", KeyNeed::any, repository_index, nullptr},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", KeyNeed::admin, repository_load, nullptr, "unary", true},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", KeyNeed::admin, repository_unload, nullptr, "unary",
     true},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", KeyNeed::any, shared_memory_status, nullptr},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister", KeyNeed::any, shared_memory_register, nullptr},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister", KeyNeed::any, shared_memory_unregister, nullptr},
};

// The last ones.
constexpr std::size_t shared_memory_methods = 3;

constexpr Method health_table[] = {
    {"/grpc.health.v1.Health/Check", KeyNeed::none, check_health, nullptr},
    {"/grpc.health.v1.Health/Watch", KeyNeed::none, nullptr, make_health_watch, "server_stream"},
};

}  // namespace

std::span<const Method> inference_methods(bool has_shared_memory) noexcept {
  const std::span<const Method> all = inference_table;
  return has_shared_memory ? all : all.first(all.size() - shared_memory_methods);
}

std::span<const Method> health_methods() noexcept {
  return health_table;
}

}  // namespace gpux::server
