#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gpux/export.h"

namespace gpux {

/// The kind of a failure, by what the caller can do about it. The number is the exit code of the command line.
enum class ErrorCode : int {
  internal = 1,              ///< A bug in gpux: report it.
  usage = 2,                 ///< The call or command line is wrong: correct it.
  invalid_config = 3,        ///< gpux.yml is wrong: edit it.
  invalid_model = 4,         ///< The model file cannot be used: get another.
  provider_unavailable = 5,  ///< A required provider cannot run here, or failed: install it or request another.
  invalid_input = 6,         ///< The data does not fit the model, or a node fails on it: correct the data.
  not_found = 7,             ///< No such model, name or file.
  resource_exhausted = 8,    ///< Memory or a queue is full: try later or with less.
  deadline_exceeded = 9,     ///< The deadline passed.
  network = 10,       ///< A port is in use, or a bus, server, hub or registry does not answer as it should: try later.
  permission = 11,    ///< Not allowed.
  storage = 13,       ///< Disk full, read-only or unreadable.
  interrupted = 130,  ///< Stopped by a signal.
};

/// The code's name in JSON and documents ("invalid_input").
GPUX_API std::string_view to_string(ErrorCode code) noexcept;

/// The setting, file, prompt, … that an error is about or that its message names. The command line, HTTP and Python
/// print it under the name that their users know.
struct Subject {
  /// What `name` names.
  enum class Kind : std::uint8_t {
    setting,     ///< by its name in this API: "verify_key"; a flag of the command line, a member of a request
    member,      ///< of a request's body, by its path: "messages[0].role"
    file,        ///< or folder, by its path
    prompt,      ///< name: what of it is wrong: "length", "tokens"
    constraint,  ///< the form that a text must have: "JSON schema"
    device,      ///< that this process can no longer use; the name may be empty
  };
  Kind kind;
  std::string name;

  bool operator==(const Subject&) const = default;
};

/// The default name of a subject in messages: its `name`; "the prompt" for a prompt.
GPUX_API std::string to_string(const Subject& subject);

/// What a subject is called where a message is read; null: as to_string().
using NameOfSubject = std::function<std::string(const Subject&)>;

/// A message in parts: texts, and what they name. It stands for its text where a text is expected.
struct GPUX_API Message : std::vector<std::variant<std::string, Subject>> {
  using vector::vector;

  /// Empty where the text is.
  explicit Message(std::string text) {
    if (!text.empty()) emplace_back(std::move(text));
  }

  /// As to_string().
  operator std::string() const;  // NOLINT(google-explicit-constructor): a text for those who do not name subjects
};

/// The message as one text, with to_string(Subject), or `name_of`, for each subject.
GPUX_API std::string to_string(const Message& message);
GPUX_API std::string to_string(const Message& message, const NameOfSubject& name_of);

GPUX_API bool operator==(const Message& message, std::string_view text);
GPUX_API std::ostream& operator<<(std::ostream& out, const Message& message);

/// gpux's only error type. It can be thrown, stored for one request of a batch, or printed.
/// The message is one line: what was attempted, what was found and what is accepted. It may quote untrusted input:
/// control characters and bytes that are not UTF-8 are escaped as "\x1b".
class GPUX_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);

  /// About the first subject of the message; about nothing where it names none.
  Error(ErrorCode code, Message message);

  /// About a subject that the message does not name.
  Error(ErrorCode code, Subject subject, const std::string& message);

  /// Kind of the failure.
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  /// The message with the default names of its subjects: what().
  [[nodiscard]] std::string message() const { return what(); }

  /// The message with other names for what it names.
  [[nodiscard]] std::string message(const NameOfSubject& name_of) const;

  /// The message in its parts.
  [[nodiscard]] Message parts() const;

  /// Null: it is about nothing by name. Lives as long as the error and its copies.
  [[nodiscard]] const Subject* subject() const noexcept;

  /// The number of code(), as the command line exits with it.
  [[nodiscard]] int exit_code() const noexcept { return static_cast<int>(code_); }

  /// This error with a prefix: "context: message". Code and subject stay.
  [[nodiscard]] Error within(std::string_view context) const;
  [[nodiscard]] Error within(Message context) const;

  /// This error with another code. Message and subject stay.
  [[nodiscard]] Error as(ErrorCode code) const;

  /// This error with `text` appended to its message. Code and subject stay.
  [[nodiscard]] Error followed_by(Message text) const;

 private:
  struct Parts;

  Error(ErrorCode code, std::shared_ptr<const Parts> parts);

  [[nodiscard]] std::optional<Subject> about() const;

  ErrorCode code_;
  std::shared_ptr<const Parts> parts_;  // null: the message is a text, about nothing
};

}  // namespace gpux
