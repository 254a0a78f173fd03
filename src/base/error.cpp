#include "gpux/error.h"

#include <ostream>
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

std::string to_string(const Message& message) {
  return to_string(message, nullptr);
}

std::string to_string(const Message& message, const NameOfSubject& name_of) {
  std::string text;
  for (const auto& part : message) {
    const auto* subject = std::get_if<Subject>(&part);
    if (subject == nullptr) {
      text += std::get<std::string>(part);
    } else {
      text += name_of ? name_of(*subject) : to_string(*subject);
    }
  }
  return text;
}

Message::operator std::string() const {
  return to_string(*this);
}

bool operator==(const Message& message, std::string_view text) {
  return to_string(message) == text;
}

std::ostream& operator<<(std::ostream& out, const Message& message) {
  return out << to_string(message);
}

struct Error::Parts {
  Message message;
  std::optional<Subject> subject;  // empty: the first one of the message
};

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}

Error::Error(ErrorCode code, Message message)
    : Error(code, std::make_shared<const Parts>(Parts{std::move(message), std::nullopt})) {}

Error::Error(ErrorCode code, Subject subject, const std::string& message)
    : Error(code, std::make_shared<const Parts>(Parts{{message}, std::move(subject)})) {}

Error::Error(ErrorCode code, std::shared_ptr<const Parts> parts)
    : std::runtime_error(one_line(to_string(parts->message))), code_(code), parts_(std::move(parts)) {}

std::string Error::message(const NameOfSubject& name_of) const {
  return parts_ ? one_line(to_string(parts_->message, name_of)) : what();
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
