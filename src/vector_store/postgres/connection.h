#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "gpux/error.h"
#include "vector_store/postgres/pq_library.h"

namespace gpux::vector_store {

/// The rows of an answer, as text.
class Rows {
 public:
  explicit Rows(PGresult* result) : result_(result, PqLibrary::get().clear) {}

  [[nodiscard]] int size() const { return PqLibrary::get().ntuples(result_.get()); }

  [[nodiscard]] bool is_null(int row, int column) const {
    return PqLibrary::get().getisnull(result_.get(), row, column) != 0;
  }

  /// Lives as long as the rows.
  [[nodiscard]] std::string_view text(int row, int column) const {
    const PqLibrary& pq = PqLibrary::get();
    return {pq.getvalue(result_.get(), row, column),
            static_cast<std::size_t>(pq.getlength(result_.get(), row, column))};
  }

 private:
  std::unique_ptr<PGresult, decltype(&::PQclear)> result_;
};

/// A connection to a PostgreSQL server, made by the first statement and made again by the first one after it was lost.
/// Used by one thread at a time. Each statement has a deadline: a server that does not answer is given up, and its
/// connection closed.
class Connection {
 public:
  using Limit = std::chrono::seconds;

  static constexpr Limit default_limit{60};

  /// `uri`: for libpq. `shown`: for messages. `cancellation`: ends what waits for the server, with its own error.
  Connection(std::string uri, std::string shown, Cancellation cancellation = {});
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs one statement with texts as its parameters $1, $2, … Errors of server_error() and connection_error().
  Rows run(const std::string& statement, const std::vector<std::string>& parameters = {}, Limit limit = default_limit);

  /// Sends the bytes of a "COPY … FROM STDIN". Errors as run().
  void copy(const std::string& statement, std::string_view bytes, Limit limit = default_limit);

  /// Closes the connection; the server ends its transaction.
  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return connection_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;

  void open();
  void send(const std::string& statement, const std::vector<std::string>& parameters);
  void flush(Clock::time_point deadline);
  void wait(short events, Clock::time_point deadline);
  Rows receive(Clock::time_point deadline, ExecStatusType expected);
  [[noreturn]] void fail_connection();

  std::string uri_, shown_;
  Cancellation cancellation_;
  std::unique_ptr<PGconn, decltype(&::PQfinish)> connection_;
};

/// A transaction: rolled back where commit() was not reached.
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) { connection_.run("BEGIN"); }

  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit(Connection::Limit limit = Connection::default_limit);

 private:
  Connection& connection_;
  bool is_open_ = true;
};

}  // namespace gpux::vector_store
