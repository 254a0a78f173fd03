#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "server/protocols/field.h"
#include "server/protocols/request_error.h"
#include "server/requests/member_rules.h"
#include "server/requests/request_work.h"

/// Common parts of all readers of requests: bounded JSON, and objects whose members are known.
namespace gpux::server {

using RequestJson = nlohmann::json;

/// Throws Error invalid_input with this message about the body.
[[noreturn]] void refuse_body(const std::string& message);

/// RequestError: `what` is wrong with the member, as "is no text" or ": texts are not stored here".
[[noreturn]] void refuse_member(const std::string& member, std::string_view what,
                                MemberProblem problem = MemberProblem::invalid);

/// How a body is read.
struct BodyReading {
  BodyReading() = default;

  /// Without rules: not for requests of a server.
  explicit BodyReading(Cancellation ends) : cancellation(std::move(ends)) {}

  BodyReading(const RequestWork& work)  // NOLINT(google-explicit-constructor)
      : cancellation(work.cancellation()), rules(work.member_rules) {}

  Cancellation cancellation;
  MemberRules* rules = nullptr;  ///< null: unknown members are refused, and nobody counts the others
};

/// Where a body may have objects.
enum class BodyObjects : std::uint8_t {
  settings,      ///< few in lists, of members that are not known
  inputs,        ///< in a list: images and texts with their kinds
  conversation,  ///< many, at any depth: messages, tools and schemas
};

/// The body as JSON. It is refused at the first value that no such request has, before memory is spent on the rest.
/// Linear. Errors invalid_input; as of Cancellation::check().
[[nodiscard]] RequestJson parse_request(std::string_view body, const Cancellation& cancellation,
                                        BodyObjects objects = BodyObjects::settings);

/// The value as a whole number: 3 and 3.0 are the same number in JSON; empty for anything else.
[[nodiscard]] std::optional<std::uint64_t> whole_number(const RequestJson& value);

/// Checks the number of texts. Error invalid_input if there are none, or more than max_texts.
void check_count(std::size_t count, const std::string& place);

/// Maximum number of fields of an object.
inline constexpr std::size_t max_fields = 128;

/// An object's members, as a table of fields has them. Errors invalid_input name the place; std::logic_error where the
/// table has no field of that name and kind.
class Members {
 public:
  /// The object, the table and the rules, which may be null, outlive them.
  Members(const RequestJson& object, std::string place, std::span<const Field> fields, MemberRules* rules);

  /// Members of an object inside of this one, under the same rules.
  [[nodiscard]] Members inside(const RequestJson& object, std::string place, std::span<const Field> fields) const {
    return {object, std::move(place), fields, rules_};
  }

  [[nodiscard]] MemberRules* rules() const noexcept { return rules_; }

  /// Members may also be these, of a second table: what they are depends on another one.
  void also(std::span<const Field> fields) { more_fields_ = fields; }

  /// Null where it is not there, or null; a required field is refused then, by each of these functions.
  [[nodiscard]] const RequestJson* find(std::string_view name);

  /// The value of a required field. RequestError if it is missing or null.
  [[nodiscard]] const RequestJson& must_find(std::string_view name);

  /// Empty where it is not there.
  [[nodiscard]] std::string text(std::string_view name);

  [[nodiscard]] bool flag(std::string_view name, bool otherwise);

  /// The value of a count, from 1; 0 if the member is missing.
  [[nodiscard]] std::size_t count(std::string_view name);

  /// Empty where it is not there.
  [[nodiscard]] std::optional<double> number(std::string_view name);

  /// Empty where it is not there.
  [[nodiscard]] std::optional<std::uint64_t> whole(std::string_view name);

  /// A text, or a list of texts; empty where it is not there.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name);

  /// The index of the text among the field's choices; empty where it is not there.
  [[nodiscard]] std::optional<std::size_t> choice(std::string_view name);

  /// Checks the type of the field and leaves it: it changes no answer.
  void ignore(std::string_view name);

  [[nodiscard]] std::string name_of(std::string_view name) const;

  /// Ends the reading: refuses refused fields that ask for something, notes ignored ones, and refuses or notes members
  /// that are not in the tables. Null is nothing everywhere. std::logic_error for a member that is in a table and
  /// was not read.
  void finish();

 private:
  [[nodiscard]] std::optional<std::size_t> index_of(std::string_view name) const noexcept;
  [[nodiscard]] const Field& at(std::size_t index) const noexcept;
  /// Notes that it is read.
  const Field& field(std::string_view name);
  /// The member of a field of this kind; null where it is not there, or null.
  [[nodiscard]] const RequestJson* find(std::string_view name, FieldKind kind);

  const RequestJson& object_;
  std::string place_;
  std::span<const Field> fields_, more_fields_;
  MemberRules* rules_;
  std::bitset<max_fields> is_read_;
};

}  // namespace gpux::server
