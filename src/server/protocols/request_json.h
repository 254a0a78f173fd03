#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "server/protocols/request_error.h"

/// What the readers of requests share: bounded JSON, and objects whose members are known.
namespace gpux::server {

using RequestJson = nlohmann::json;

/// Error invalid_input.
[[noreturn]] void refuse_body(const std::string& message);

/// RequestError: `what` is wrong with the member, as "is no text" or ": texts are not stored here".
[[noreturn]] void refuse_member(const std::string& member, std::string_view what,
                                MemberProblem problem = MemberProblem::invalid);

/// Where a body may have objects.
enum class BodyObjects : std::uint8_t {
  settings,      ///< none in a list
  inputs,        ///< in a list, too: images and texts with their kinds
  conversation,  ///< many, at any depth: messages, tools and schemas
};

/// The body as JSON. It is refused at the first value that no such request has, before memory is spent on the rest.
/// Linear. Errors invalid_input; as of Cancellation::check().
[[nodiscard]] RequestJson parse_request(std::string_view body, const Cancellation& cancellation,
                                        BodyObjects objects = BodyObjects::settings);

/// 3 and 3.0, which are the same number in JSON; empty for anything else.
[[nodiscard]] std::optional<std::uint64_t> whole_number(const RequestJson& value);

/// Error invalid_input where there are none, or more than max_texts.
void check_count(std::size_t count, const std::string& place);

/// An object's members, each of which has to be asked for. Errors invalid_input name the place.
class Members {
 public:
  Members(const RequestJson& object, std::string place);

  /// Null where it is not there, or null.
  const RequestJson* find(const std::string& name);

  const RequestJson& must_find(const std::string& name);

  /// Empty where it is not there.
  std::string text(const std::string& name);

  bool flag(const std::string& name, bool otherwise);

  /// From 1; 0 where it is not there.
  std::size_t count(const std::string& name);

  /// Empty where it is not there.
  std::optional<double> number(const std::string& name);

  /// A whole number of at most `highest`; empty where it is not there.
  std::optional<std::uint64_t> whole(const std::string& name, std::uint64_t highest = INT32_MAX);

  /// A text, or a list of texts; empty where it is not there.
  std::vector<std::string> texts(const std::string& name);

  /// The index of the text among the accepted ones; empty where it is not there.
  std::optional<std::size_t> choice(const std::string& name, const std::vector<std::string>& accepted);

  /// Refuses the member with that reason, where it is there and is not null: "there is no such thing here".
  void refuse(const std::string& name, const std::string& reason);

  [[nodiscard]] std::string name_of(const std::string& name) const;

  void refuse_others() const;

 private:
  const RequestJson& object_;
  std::string place_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace gpux::server
