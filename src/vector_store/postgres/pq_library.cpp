#include "vector_store/postgres/pq_library.h"

#include <string>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

constexpr const char* libpq_name = "libpq.so.5";

template <typename Function>
void find_function(const DynamicLibrary& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(library.symbol(name));
  if (function == nullptr) throw Error(ErrorCode::not_found, fmt::format("{} has no {}", libpq_name, name));
}

PqLibrary opened_libpq() {
  std::string failure;
  const auto library = DynamicLibrary::open(libpq_name, failure);
  if (!library) {
    throw Error(ErrorCode::not_found,
                fmt::format("PostgreSQL needs {}, of Debian's package libpq5: {}", libpq_name, failure));
  }
  PqLibrary pq{};
  find_function(*library, pq.conninfo_parse, "PQconninfoParse");
  find_function(*library, pq.conninfo_free, "PQconninfoFree");
  find_function(*library, pq.freemem, "PQfreemem");
  find_function(*library, pq.connectdb_params, "PQconnectdbParams");
  find_function(*library, pq.finish, "PQfinish");
  find_function(*library, pq.status, "PQstatus");
  find_function(*library, pq.error_message, "PQerrorMessage");
  find_function(*library, pq.connection_needs_password, "PQconnectionNeedsPassword");
  find_function(*library, pq.parameter_status, "PQparameterStatus");
  find_function(*library, pq.set_notice_processor, "PQsetNoticeProcessor");
  find_function(*library, pq.set_nonblocking, "PQsetnonblocking");
  find_function(*library, pq.socket, "PQsocket");
  find_function(*library, pq.send_query_params, "PQsendQueryParams");
  find_function(*library, pq.flush, "PQflush");
  find_function(*library, pq.consume_input, "PQconsumeInput");
  find_function(*library, pq.is_busy, "PQisBusy");
  find_function(*library, pq.get_result, "PQgetResult");
  find_function(*library, pq.result_status, "PQresultStatus");
  find_function(*library, pq.result_error_field, "PQresultErrorField");
  find_function(*library, pq.result_error_message, "PQresultErrorMessage");
  find_function(*library, pq.ntuples, "PQntuples");
  find_function(*library, pq.getisnull, "PQgetisnull");
  find_function(*library, pq.getvalue, "PQgetvalue");
  find_function(*library, pq.getlength, "PQgetlength");
  find_function(*library, pq.clear, "PQclear");
  find_function(*library, pq.put_copy_data, "PQputCopyData");
  find_function(*library, pq.put_copy_end, "PQputCopyEnd");
  return pq;
}

}  // namespace

const PqLibrary& PqLibrary::get() {
  static const PqLibrary library = opened_libpq();
  return library;
}

}  // namespace gpux::vector_store
