#include "server/protocols/ollama/store_routes.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "server/models/model_entry.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/ollama/status_lines.h"
#include "server/protocols/ollama/store_requests.h"
#include "store/reference.h"

namespace gpux::server::ollama {
namespace {

http::Response empty_answer(int status) {
  http::Response response;
  response.status = status;
  return response;
}

// The models that are served are those of the store: they change before the client learns of it.
void after_change(const RouteCall& call, std::function<void()> answer) {
  call.service.repository.refresh(
      [answer = std::move(answer)](const std::optional<Error>& /*of_any_model*/) { answer(); });
}

using Start = std::function<std::uint64_t(StoreJobs::Listener)>;

// Answers with the job's progress. It ends when its last client leaves.
void follow(const RouteCall& call, bool is_streamed, const std::shared_ptr<AuditedChange>& record,
            const std::string& model, const Start& start) {
  const auto lines = std::make_shared<StatusLines>(call.exchange, is_streamed);
  const auto ended = [lines, call, record, model](const std::optional<Error>& ended_by) {
    const std::optional<Error> failure =
        record->end(ended_by, ended_by ? std::string() : call.service.changes.stored_digest(model));
    if (failure) {
      lines->finish(for_clients(*failure));
    } else {
      after_change(call, [lines] { lines->finish(std::nullopt); });
    }
  };
  std::uint64_t ticket = 0;
  audited(*record, [&] {
    ticket = start({.progress = [lines](const JobStatus& status) { lines->write(status); }, .ended = ended});
  });
  cancel_when_gone(*call.exchange, call.work, [&jobs = call.service.changes.jobs(), ticket] { jobs.leave(ticket); });
}

// Of work on files, which is not for the thread that reads requests.
void change(const RouteCall& call, const std::shared_ptr<AuditedChange>& record, const std::string& model,
            std::function<void()> work, std::function<http::Response()> answer) {
  do_later(call, work_here_bytes + 1, [call, record, model, work = std::move(work), answer = std::move(answer)] {
    try {
      std::string digest = call.service.changes.stored_digest(model);
      audited(*record, work);
      if (const auto failure = record->end(std::nullopt, std::move(digest))) throw Error(*failure);
      after_change(call, [exchange = call.exchange, answer] { exchange->respond(answer()); });
    } catch (const Error& error) {
      call.exchange->respond(error_response(for_clients(error), call.protocol));
    }
    return false;
  });
}

std::string digest_of(const RouteCall& call) {
  return read_ollama_digest(call.id.value_or(""), "digest");
}

}  // namespace

void pull_model(const RouteCall& call) {
  const OllamaTransfer asked = read_ollama_transfer(call.request().body.text(), call.work);
  follow(call, asked.is_streamed, audit(call, "pull", asked.model), asked.model,
         [&](StoreJobs::Listener listener) { return call.service.changes.pull(asked.model, std::move(listener)); });
}

void push_model(const RouteCall& call) {
  const OllamaTransfer asked = read_ollama_transfer(call.request().body.text(), call.work);
  follow(call, asked.is_streamed, audit(call, "push", asked.model), asked.model,
         [&](StoreJobs::Listener listener) { return call.service.changes.push(asked.model, std::move(listener)); });
}

void create_model(const RouteCall& call) {
  const OllamaCreation asked = read_ollama_create(call.request().body.text(), call.work);
  const std::string& name = asked.creation.name;
  follow(call, asked.is_streamed, audit(call, "create", name), name, [&](StoreJobs::Listener listener) {
    return call.service.changes.create(asked.creation, std::move(listener));
  });
}

void copy_model(const RouteCall& call) {
  const OllamaCopy asked = read_ollama_copy(call.request().body.text(), call.work);
  (void)parse_reference(asked.destination);
  change(
      call, audit(call, "copy", asked.source, asked.destination), asked.source,
      [&changes = call.service.changes, asked] { changes.copy(asked.source, asked.destination); },
      [] { return empty_answer(200); });
}

void delete_model(const RouteCall& call) {
  const std::string name = read_ollama_delete(call.request().body.text(), call.work);
  change(
      call, audit(call, "delete", name), name, [&changes = call.service.changes, name] { changes.remove(name); },
      [] { return empty_answer(200); });
}

void find_blob(const RouteCall& call) {
  const std::string digest = digest_of(call);
  if (!call.service.changes.uploads().has(digest)) {
    throw Error(ErrorCode::not_found, fmt::format("no file sha256:{} is kept", digest));
  }
  call.exchange->respond(empty_answer(200));
}

void keep_blob(const RouteCall& call) {
  const std::string digest = digest_of(call);
  const std::shared_ptr<AuditedChange> record = audit(call, "upload", {});
  do_later(call, call.request().body.bytes.size() + work_here_bytes, [call, digest, record] {
    try {
      audited(*record, [&] { call.service.changes.uploads().keep(digest, call.request().body.bytes); });
      if (const auto failure = record->end(std::nullopt, digest)) throw Error(*failure);
      call.exchange->respond(empty_answer(201));
    } catch (const Error& error) {
      call.exchange->respond(error_response(for_clients(error), call.protocol));
    }
    return false;
  });
}

}  // namespace gpux::server::ollama
