#include "gpux/error.h"

#include <utility>

#include "base/error_number.h"
#include "base/utf8.h"

namespace gpux {

ErrorCode error_code_of(std::int32_t number) noexcept {
  const auto code = static_cast<ErrorCode>(number);
  switch (code) {
    case ErrorCode::internal:
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_model:
    case ErrorCode::provider_unavailable:
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
    case ErrorCode::resource_exhausted:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::network:
    case ErrorCode::permission:
    case ErrorCode::storage:
    case ErrorCode::interrupted:
      return code;
  }
  return ErrorCode::internal;
}

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::invalid_config:
      return "invalid_config";
    case ErrorCode::invalid_model:
      return "invalid_model";
    case ErrorCode::provider_unavailable:
      return "provider_unavailable";
    case ErrorCode::invalid_input:
      return "invalid_input";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::network:
      return "network";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::storage:
      return "storage";
    case ErrorCode::interrupted:
      return "interrupted";
  }
  return "internal";
}

std::string to_string(const Subject& subject) {
  return subject.kind == Subject::Kind::prompt ? "the prompt" : subject.name;
}

struct Error::Parts {
  Message message;
  std::optional<Subject> subject;  // empty: the first one of the message
};

namespace {

std::string text_of(const Message& message, const std::function<std::string(const Subject&)>& name_of) {
  std::string text;
  for (const auto& part : message) {
    const auto* subject = std::get_if<Subject>(&part);
    text += subject == nullptr ? std::get<std::string>(part) : name_of(*subject);
  }
  return text;
}

std::string plain_name(const Subject& subject) {
  return to_string(subject);
}

}  // namespace

std::string to_string(const Message& message) {
  return text_of(message, plain_name);
}

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}

Error::Error(ErrorCode code, Message message)
    : Error(code, std::make_shared<const Parts>(Parts{std::move(message), std::nullopt})) {}

Error::Error(ErrorCode code, Subject subject, const std::string& message)
    : Error(code, std::make_shared<const Parts>(Parts{{message}, std::move(subject)})) {}

Error::Error(ErrorCode code, std::shared_ptr<const Parts> parts)
    : std::runtime_error(one_line(text_of(parts->message, plain_name))), code_(code), parts_(std::move(parts)) {}

std::string Error::message(const std::function<std::string(const Subject&)>& name_of) const {
  return parts_ ? one_line(text_of(parts_->message, name_of)) : what();
}

const Subject* Error::subject() const noexcept {
  if (!parts_) return nullptr;
  const std::optional<Subject>& own = parts_->subject;
  if (own) return &*own;
  for (const auto& part : parts_->message) {
    if (const auto* subject = std::get_if<Subject>(&part)) return subject;
  }
  return nullptr;
}

Error Error::within(std::string_view context) const {
  return within(Message{std::string(context)});
}

Error Error::within(Message context) const {
  Parts longer{std::move(context), about()};
  longer.message.emplace_back(": ");
  const Message own = parts();
  longer.message.insert(longer.message.end(), own.begin(), own.end());
  return {code_, std::make_shared<const Parts>(std::move(longer))};
}

Error Error::as(ErrorCode code) const {
  Error other = *this;
  other.code_ = code;
  return other;
}

Error Error::followed_by(Message text) const {
  Parts longer{parts(), about()};
  longer.message.insert(longer.message.end(), text.begin(), text.end());
  return {code_, std::make_shared<const Parts>(std::move(longer))};
}

Message Error::parts() const {
  return parts_ ? parts_->message : Message{std::string(what())};
}

std::optional<Subject> Error::about() const {
  const Subject* const subject = this->subject();
  return subject == nullptr ? std::nullopt : std::optional(*subject);
}

}  // namespace gpux
