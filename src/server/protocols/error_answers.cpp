#include "server/protocols/error_answers.h"

#include <string_view>

#include <fmt/format.h>

#include "server/protocols/request_error.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

constexpr int too_many_requests = 429;

int status_of(ErrorCode code, Protocol protocol) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_input:
      return protocol == Protocol::texts ? 422 : 400;
    case ErrorCode::invalid_model:
      return protocol == Protocol::texts ? 424 : 422;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::resource_exhausted:
      return protocol == Protocol::open_inference ? 503 : 429;
    case ErrorCode::deadline_exceeded:
      return 504;
    case ErrorCode::network:
      return 502;
    case ErrorCode::permission:
      return 403;
    case ErrorCode::provider_unavailable:
    case ErrorCode::interrupted:
      return 503;
    case ErrorCode::internal:
    case ErrorCode::storage:
      break;
  }
  return 500;
}

std::string_view openai_error_type(ErrorCode code, int status) {
  if (code == ErrorCode::permission) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

// As OpenAI's own server names them; empty: it has no name for it.
std::string_view openai_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found:
      return "model_not_found";
    case ErrorCode::permission:
      return "invalid_api_key";
    case ErrorCode::resource_exhausted:
      return "rate_limit_exceeded";
    default:
      return {};
  }
}

std::string_view openai_code(MemberProblem problem) {
  switch (problem) {
    case MemberProblem::invalid:
      return "invalid_value";
    case MemberProblem::missing:
      return "missing_required_parameter";
    case MemberProblem::unknown:
      return "unknown_parameter";
    case MemberProblem::too_long:
      return "context_length_exceeded";
  }
  return {};
}

// null where it is empty.
void append_json_text(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

// As Anthropic's own server names them.
std::string_view anthropic_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string_view texts_error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
    case ErrorCode::permission:
      return "Validation";
    case ErrorCode::resource_exhausted:
      return "Overloaded";
    case ErrorCode::interrupted:
    case ErrorCode::provider_unavailable:
      return "Unhealthy";
    default:
      return "Backend";
  }
}

}  // namespace

std::string openai_error_json(const Error& error) {
  const auto* of_member = dynamic_cast<const RequestError*>(&error);
  const bool is_model = error.code() == ErrorCode::not_found;
  std::string text = R"({"message":)";
  append_json_string(text, error.message());
  text += fmt::format(R"(,"type":"{}","param":)",
                      openai_error_type(error.code(), status_of(error.code(), Protocol::openai)));
  append_json_text(text, of_member != nullptr ? std::string_view(of_member->member()) : is_model ? "model" : "");
  text += R"(,"code":)";
  append_json_text(text, of_member != nullptr ? openai_code(of_member->problem()) : openai_code(error.code()));
  return text + '}';
}

std::string anthropic_error_json(const Error& error) {
  // Where a key is not accepted, the status is 401.
  const int status = error.code() == ErrorCode::permission ? 401 : status_of(error.code(), Protocol::anthropic);
  std::string text = fmt::format(R"({{"type":"error","error":{{"type":"{}","message":)", anthropic_error_type(status));
  append_json_string(text, error.message());
  return text + "}}";
}

namespace {

http::Response answer_of(const Error& error, Protocol protocol, int status) {
  std::string text;
  switch (protocol) {
    case Protocol::own:
      text = R"({"detail":)";
      append_json_string(text, error.message());
      text += '}';
      break;
    case Protocol::open_inference:
    case Protocol::ollama:
      text = R"({"error":)";
      append_json_string(text, error.message());
      text += '}';
      break;
    case Protocol::openai:
      text = R"({"error":)" + openai_error_json(error) + "}";
      break;
    case Protocol::anthropic:
      text = anthropic_error_json(error);
      break;
    case Protocol::texts:
      text = R"({"error":)";
      append_json_string(text, error.message());
      text += fmt::format(R"(,"error_type":"{}"}})", texts_error_type(error.code()));
      break;
  }
  return http::Response::json(status, std::move(text));
}

}  // namespace

http::Response error_response(const Error& error, Protocol protocol) {
  http::Response response = answer_of(error, protocol, status_of(error.code(), protocol));
  if (error.code() == ErrorCode::resource_exhausted) response.headers.add("Retry-After", "1");
  return response;
}

http::Response limit_response(const LimitRefusal& refusal, const std::string& message, Protocol protocol) {
  http::Response response = answer_of(Error(ErrorCode::resource_exhausted, message), protocol, too_many_requests);
  response.headers.add("Retry-After", std::to_string(retry_after(refusal).count()));
  return response;
}

}  // namespace gpux::server
