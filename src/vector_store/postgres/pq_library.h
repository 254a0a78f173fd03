#pragma once

#include <libpq-fe.h>

namespace gpux::vector_store {

/// The functions of libpq that are needed. It is opened when they first are, so that programs that use no PostgreSQL
/// do not need it.
struct PqLibrary {
  /// The loaded libpq. Error not_found if it is missing.
  static const PqLibrary& get();

  decltype(&::PQconninfoParse) conninfo_parse;
  decltype(&::PQconninfoFree) conninfo_free;
  decltype(&::PQfreemem) freemem;
  decltype(&::PQconnectdbParams) connectdb_params;
  decltype(&::PQfinish) finish;
  decltype(&::PQstatus) status;
  decltype(&::PQerrorMessage) error_message;
  decltype(&::PQconnectionNeedsPassword) connection_needs_password;
  decltype(&::PQparameterStatus) parameter_status;
  decltype(&::PQsetNoticeProcessor) set_notice_processor;
  decltype(&::PQsetnonblocking) set_nonblocking;
  decltype(&::PQsocket) socket;
  decltype(&::PQsendQueryParams) send_query_params;
  decltype(&::PQflush) flush;
  decltype(&::PQconsumeInput) consume_input;
  decltype(&::PQisBusy) is_busy;
  decltype(&::PQgetResult) get_result;
  decltype(&::PQresultStatus) result_status;
  decltype(&::PQresultErrorField) result_error_field;
  decltype(&::PQresultErrorMessage) result_error_message;
  decltype(&::PQntuples) ntuples;
  decltype(&::PQgetisnull) getisnull;
  decltype(&::PQgetvalue) getvalue;
  decltype(&::PQgetlength) getlength;
  decltype(&::PQclear) clear;
  decltype(&::PQputCopyData) put_copy_data;
  decltype(&::PQputCopyEnd) put_copy_end;
};

}  // namespace gpux::vector_store
