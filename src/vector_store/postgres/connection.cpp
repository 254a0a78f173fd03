#include "vector_store/postgres/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <poll.h>

#include "base/failure_of.h"
#include "vector_store/postgres/server_error.h"

namespace gpux::vector_store {
namespace {

// A notice, as "relation already exists, skipping", is no message of gpux.
void ignore_notice(void* /*argument*/, const char* /*message*/) {}

std::string_view field_of(const PGresult* result, int field) {
  const char* text = PqLibrary::get().result_error_field(result, field);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// libpq's own message quotes the address with its password.
void require_readable(const std::string& uri, std::string_view shown) {
  const PqLibrary& pq = PqLibrary::get();
  char* message = nullptr;
  PQconninfoOption* const options = pq.conninfo_parse(uri.c_str(), &message);
  pq.freemem(message);
  if (options == nullptr) {
    throw Error(ErrorCode::usage,
                fmt::format("'{}': libpq does not read the address; accepted: "
                            "postgres://[USER[:PASSWORD]@][HOST[:PORT]][/DATABASE][?…] with libpq's parameters",
                            shown));
  }
  pq.conninfo_free(options);
}

}  // namespace

Connection::Connection(std::string uri, std::string shown, Cancellation cancellation)
    : uri_(std::move(uri)),
      shown_(std::move(shown)),
      cancellation_(std::move(cancellation)),
      connection_(nullptr, PqLibrary::get().finish) {}

Connection::~Connection() = default;

void Connection::close() noexcept {
  connection_.reset();
}

void Connection::open() {
  if (connection_ != nullptr) return;
  cancellation_.check();
  const PqLibrary& pq = PqLibrary::get();
  require_readable(uri_, shown_);
  // What the URI says comes last and takes precedence; it does not say the encoding.
  const std::array<const char*, 7> names{"connect_timeout", "tcp_user_timeout", "fallback_application_name",
                                         "dbname",          "client_encoding",  nullptr};
  const std::array<const char*, 7> values{"10", "30000", "gpux", uri_.c_str(), "UTF8", nullptr};
  connection_.reset(pq.connectdb_params(names.data(), values.data(), 1));
  if (connection_ == nullptr) throw Error(ErrorCode::resource_exhausted, "libpq has no memory for a connection");
  if (pq.status(connection_.get()) != CONNECTION_OK) {
    const bool asked = pq.connection_needs_password(connection_.get()) != 0;
    const Error error = connection_error(pq.error_message(connection_.get()), asked, shown_);
    close();
    throw error;
  }
  pq.set_notice_processor(connection_.get(), ignore_notice, nullptr);
  const char* encoding = pq.parameter_status(connection_.get(), "server_encoding");
  if (encoding == nullptr || std::string_view(encoding) != "UTF8") {
    const std::string found = encoding == nullptr ? "unknown" : encoding;
    close();
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}': the encoding of the database is {}; accepted: UTF8", shown_, found));
  }
  if (pq.set_nonblocking(connection_.get(), 1) != 0) fail_connection();
}

void Connection::fail_connection() {
  const Error error = server_error("", PqLibrary::get().error_message(connection_.get()), shown_);
  close();
  throw error;
}

void Connection::wait(short events, Clock::time_point deadline) {
  constexpr std::int64_t longest_ms = 250;  // until a cancellation is seen
  pollfd polled{.fd = PqLibrary::get().socket(connection_.get()), .events = events, .revents = 0};
  for (std::int64_t left = 1; left > 0;) {
    if (cancellation_.is_requested()) close();
    cancellation_.check();
    left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = ::poll(&polled, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, longest_ms)));
    if (ready > 0 || (ready < 0 && errno == EINTR)) return;
  }
  close();
  throw Error(ErrorCode::network, fmt::format("'{}': the server did not answer in time", shown_));
}

void Connection::flush(Clock::time_point deadline) {
  const PqLibrary& pq = PqLibrary::get();
  for (;;) {
    const int left = pq.flush(connection_.get());
    if (left == 0) return;
    if (left < 0) fail_connection();
    wait(POLLIN | POLLOUT, deadline);
    // What the server sends meanwhile must not block it.
    if (pq.consume_input(connection_.get()) == 0) fail_connection();
  }
}

void Connection::send(const std::string& statement, const std::vector<std::string>& parameters) {
  std::vector<const char*> values;
  for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
  const int sent =
      PqLibrary::get().send_query_params(connection_.get(), statement.c_str(), static_cast<int>(values.size()), nullptr,
                                         values.data(), nullptr, nullptr, 0);
  if (sent == 0) fail_connection();
}

// All results of a statement: the first error counts, else the last.
Rows Connection::receive(Clock::time_point deadline, ExecStatusType expected) {
  const PqLibrary& pq = PqLibrary::get();
  flush(deadline);
  std::unique_ptr<PGresult, decltype(&::PQclear)> last(nullptr, pq.clear);
  std::optional<Error> error;
  for (;;) {
    while (pq.is_busy(connection_.get()) != 0) {
      wait(POLLIN, deadline);
      if (pq.consume_input(connection_.get()) == 0) fail_connection();
    }
    PGresult* const result = pq.get_result(connection_.get());
    if (result == nullptr) break;
    last.reset(result);
    const ExecStatusType status = pq.result_status(result);
    if (status == PGRES_COPY_IN && expected == PGRES_COPY_IN) break;
    const bool is_failure = status != expected && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
    if (is_failure && !error) {
      const std::string_view primary = field_of(result, PG_DIAG_MESSAGE_PRIMARY);
      error = server_error(field_of(result, PG_DIAG_SQLSTATE),
                           primary.empty() ? std::string_view(pq.result_error_message(result)) : primary, shown_);
    }
    if (pq.status(connection_.get()) != CONNECTION_OK) break;
  }
  if (pq.status(connection_.get()) != CONNECTION_OK) {
    if (!error) error = server_error("", pq.error_message(connection_.get()), shown_);
    close();
  }
  if (error) throw *error;
  return Rows(last.release());
}

Rows Connection::run(const std::string& statement, const std::vector<std::string>& parameters, Limit limit) {
  open();
  send(statement, parameters);
  return receive(Clock::now() + limit, PGRES_TUPLES_OK);
}

void Connection::copy(const std::string& statement, std::string_view bytes, Limit limit) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  const auto deadline = Clock::now() + limit;
  const PqLibrary& pq = PqLibrary::get();
  open();
  send(statement, {});
  (void)receive(deadline, PGRES_COPY_IN);
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, piece_bytes);
    const int taken = pq.put_copy_data(connection_.get(), piece.data(), static_cast<int>(piece.size()));
    if (taken < 0) fail_connection();
    if (taken == 1) bytes.remove_prefix(piece.size());
    flush(deadline);
  }
  for (;;) {
    const int taken = pq.put_copy_end(connection_.get(), nullptr);
    if (taken == 1) break;
    if (taken < 0) fail_connection();
    flush(deadline);
  }
  (void)receive(deadline, PGRES_COMMAND_OK);
}

Transaction::~Transaction() {
  if (!is_open_ || !connection_.is_open()) return;
  if (failure_of([&] { connection_.run("ROLLBACK"); })) connection_.close();
}

void Transaction::commit(Connection::Limit limit) {
  connection_.run("COMMIT", {}, limit);
  is_open_ = false;
}

}  // namespace gpux::vector_store
