#include "server/protocols/request_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/spelling.h"
#include "base/utf8.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server {

void refuse_body(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

void refuse_member(const std::string& member, std::string_view what, MemberProblem problem) {
  throw RequestError(member, what, problem);
}

namespace {

// A schema of 128 levels, and what is around it.
constexpr std::size_t max_body_depth = 136;

struct BodyLimits {
  std::size_t depth, values, strings, lists, members, members_of_object;
  std::size_t objects_in_lists;
};

BodyLimits limits_of(BodyObjects objects) {
  constexpr std::size_t max_values = 2'000'000;
  constexpr std::size_t max_settings = 64;
  constexpr std::size_t members_of_input = 4;  // "type", "image_url", and in it "url" and "detail"
  constexpr std::size_t shallow = 8;
  constexpr std::size_t max_members = 64 << 10;
  // What keeps their order looks for each name among those before it.
  constexpr std::size_t max_members_of_object = 4096;
  // A pair for each text, and a few settings.
  constexpr std::size_t max_strings = 2 * max_texts + max_settings;
  constexpr std::size_t max_lists = max_texts + max_settings;
  switch (objects) {
    case BodyObjects::settings:
      return {shallow, max_values, max_strings, max_lists, max_settings, max_settings, max_settings};
    case BodyObjects::inputs:
      return {shallow,
              max_values,
              max_strings,
              max_lists,
              max_settings + members_of_input * max_texts,
              max_settings + members_of_input * max_texts,
              max_settings + max_texts};
    case BodyObjects::conversation:
      break;
  }
  return {max_body_depth, max_values, max_members, max_members, max_members, max_members_of_object, max_values};
}

/// Refuses what no request for texts holds, at the first such value and before memory is spent on the rest. Linear.
class BodyCheck : public nlohmann::json_sax<RequestJson> {
 public:
  BodyCheck(std::string_view body, const Cancellation& cancellation, BodyObjects objects)
      : body_(body), cancellation_(cancellation), limits_(limits_of(objects)) {}

  bool null() override { return count(); }

  bool boolean(bool /*value*/) override { return count(); }

  bool number_integer(number_integer_t /*value*/) override { return count(); }

  bool number_unsigned(number_unsigned_t /*value*/) override { return count(); }

  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return count(); }

  bool binary(binary_t& /*value*/) override { return count(); }

  bool string(string_t& /*value*/) override {
    if (++strings_ > limits_.strings) refuse_body(fmt::format("the body has more than {} texts", limits_.strings));
    return count();
  }

  bool start_object(std::size_t /*elements*/) override {
    if (depth_ != 0 && is_list_[depth_ - 1] && ++objects_in_lists_ > limits_.objects_in_lists) {
      refuse_body(fmt::format("the body has more than {} objects in lists", limits_.objects_in_lists));
    }
    return begin(false);
  }

  bool key(string_t& name) override {
    if (++members_ > limits_.members) {
      refuse_body(
          fmt::format("the body has more than {} members; the last one is {}", limits_.members, utf8_prefix(name, 60)));
    }
    if (++members_of_[depth_ - 1] > limits_.members_of_object) {
      refuse_body(fmt::format("the body has an object of more than {} members", limits_.members_of_object));
    }
    return true;
  }

  bool end_object() override { return end(); }

  bool start_array(std::size_t /*elements*/) override {
    if (++lists_ > limits_.lists) refuse_body(fmt::format("the body has more than {} lists", limits_.lists));
    return begin(true);
  }

  bool end_array() override { return end(); }

  bool parse_error(std::size_t position, const std::string& /*token*/, const RequestJson::exception& error) override {
    if (dynamic_cast<const RequestJson::parse_error*>(&error) == nullptr)
      refuse_body("the body holds a number that is out of range");
    if (const std::string problem = utf8_problem(body_); !problem.empty()) refuse_body("the body is " + problem);
    refuse_body(fmt::format("the body is no JSON from byte {} on", position));
  }

 private:
  static constexpr std::size_t values_between_checks = 16'384;

  bool count() {
    if (++values_ > limits_.values) refuse_body(fmt::format("the body has more than {} values", limits_.values));
    if (values_ % values_between_checks == 0) cancellation_.check();
    return true;
  }

  bool begin(bool is_list) {
    if (depth_ == limits_.depth) refuse_body("the body is nested too deeply");
    is_list_[depth_] = is_list;
    members_of_[depth_++] = 0;
    return count();
  }

  bool end() {
    --depth_;
    return true;
  }

  std::string_view body_;
  const Cancellation& cancellation_;
  BodyLimits limits_;
  std::array<bool, max_body_depth> is_list_{};
  std::array<std::size_t, max_body_depth> members_of_{};
  std::size_t depth_ = 0, values_ = 0, strings_ = 0, lists_ = 0, members_ = 0, objects_in_lists_ = 0;
};

}  // namespace

RequestJson parse_request(std::string_view body, const Cancellation& cancellation, BodyObjects objects) {
  BodyCheck check(body, cancellation, objects);
  (void)RequestJson::sax_parse(body, &check);
  cancellation.check();
  return RequestJson::parse(body);
}

std::optional<std::uint64_t> whole_number(const RequestJson& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  constexpr double max_exact = 9007199254740992;
  if (number < 0 || number > max_exact || number != std::floor(number)) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

Members::Members(const RequestJson& object, std::string place, std::span<const Field> fields, MemberRules* rules)
    : object_(object), place_(std::move(place)), fields_(fields), rules_(rules) {
  if (object_.is_object()) return;
  if (place_.empty()) refuse_body("the body is no object");
  refuse_member(place_, "is no object");
}

std::optional<std::size_t> Members::index_of(std::string_view name) const noexcept {
  std::size_t index = 0;
  for (const std::span<const Field> table : {fields_, more_fields_}) {
    for (const Field& field : table) {
      if (field.name == name) return index;
      ++index;
    }
  }
  return std::nullopt;
}

const Field& Members::at(std::size_t index) const noexcept {
  return index < fields_.size() ? fields_[index] : more_fields_[index - fields_.size()];
}

const Field& Members::field(std::string_view name) {
  const auto index = index_of(name);
  if (!index) throw std::logic_error(fmt::format("no table of fields has '{}'", name_of(name)));
  is_read_.set(*index);
  return at(*index);
}

const RequestJson* Members::find(std::string_view name) {
  const bool is_required = field(name).use == FieldUse::required;
  const auto found = object_.find(name);
  if (found != object_.end() && !found->is_null()) return &*found;
  if (is_required) refuse_member(name_of(name), "is missing", MemberProblem::missing);
  return nullptr;
}

const RequestJson* Members::find(std::string_view name, FieldKind kind) {
  if (field(name).kind != kind) throw std::logic_error(fmt::format("'{}' is a field of another kind", name_of(name)));
  return find(name);
}

const RequestJson& Members::must_find(std::string_view name) {
  const RequestJson* found = find(name);
  if (found == nullptr) throw std::logic_error(fmt::format("the field '{}' is not required", name_of(name)));
  return *found;
}

std::string Members::text(std::string_view name) {
  const RequestJson* found = find(name);
  if (found == nullptr) return {};
  if (!found->is_string()) refuse_member(name_of(name), "is no text");
  return found->get<std::string>();
}

bool Members::flag(std::string_view name, bool otherwise) {
  const RequestJson* found = find(name, FieldKind::flag);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse_member(name_of(name), "is neither true nor false");
  return found->get<bool>();
}

std::size_t Members::count(std::string_view name) {
  const RequestJson* found = find(name, FieldKind::count);
  if (found == nullptr) return 0;
  const auto number = whole_number(*found);
  if (!number || *number == 0 || *number > INT32_MAX) {
    refuse_member(name_of(name), fmt::format("is no whole number from 1 to {}", INT32_MAX));
  }
  return *number;
}

std::optional<double> Members::number(std::string_view name) {
  const RequestJson* found = find(name, FieldKind::number);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) refuse_member(name_of(name), "is no number");
  return found->get<double>();
}

std::optional<std::uint64_t> Members::whole(std::string_view name) {
  const RequestJson* found = find(name, FieldKind::whole);
  if (found == nullptr) return std::nullopt;
  const auto number = whole_number(*found);
  const std::uint64_t maximum = field(name).maximum;
  if (!number || *number > maximum) {
    refuse_member(name_of(name), fmt::format("is no whole number from 0 to {}", maximum));
  }
  return number;
}

std::vector<std::string> Members::texts(std::string_view name) {
  const RequestJson* found = find(name, FieldKind::texts);
  if (found == nullptr) return {};
  if (found->is_string()) return {found->get<std::string>()};
  if (!found->is_array()) refuse_member(name_of(name), "is neither a text nor a list of texts");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const RequestJson& one = (*found)[i];
    if (!one.is_string()) refuse_member(fmt::format("{}[{}]", name_of(name), i), "is no text");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::optional<std::size_t> Members::choice(std::string_view name) {
  if (find(name) == nullptr) return std::nullopt;
  const std::string said = text(name);
  const std::span<const std::string_view> accepted = field(name).choices;
  const auto found = std::ranges::find(accepted, said);
  if (found == accepted.end()) {
    refuse_member(name_of(name),
                  fmt::format("is '{}'; accepted: {}", utf8_prefix(said, 40), fmt::join(accepted, ", ")));
  }
  return static_cast<std::size_t>(found - accepted.begin());
}

void Members::ignore(std::string_view name) {
  switch (field(name).kind) {
    case FieldKind::text:
      (void)text(name);
      return;
    case FieldKind::flag:
      (void)flag(name, false);
      return;
    case FieldKind::whole:
      (void)whole(name);
      return;
    case FieldKind::choice:
      (void)choice(name);
      return;
    case FieldKind::object:
      if (const RequestJson* found = find(name); found != nullptr && !found->is_object()) {
        refuse_member(name_of(name), "is no object");
      }
      return;
    default:
      throw std::logic_error(fmt::format("'{}' is a field that counts", name_of(name)));
  }
}

std::string Members::name_of(std::string_view name) const {
  return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

namespace {

bool asks_for_something(const RequestJson& value, const Field& field) {
  const bool is_empty = value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
  return !is_empty && (field.neutral.empty() || value != RequestJson::parse(field.neutral));
}

}  // namespace

void Members::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null()) continue;
    const auto index = index_of(name);
    if (!index) {
      const std::string known = name_of(utf8_prefix(name, 60));
      if (rules_ == nullptr || rules_->refuses_unknown()) {
        refuse_member(known, fmt::format("is not known; accepted: {}", names_of({fields_, more_fields_})),
                      MemberProblem::unknown);
      }
      rules_->note_unknown(known);
      continue;
    }
    const Field& field = at(*index);
    if (field.kind == FieldKind::refused) {
      if (asks_for_something(value, field)) refuse_member(name_of(name), fmt::format(": {}", field.refusal));
      continue;
    }
    if (field.kind == FieldKind::ignored) {
      if (rules_ != nullptr) rules_->note_ignored(field.name);
      continue;
    }
    if (!is_read_[*index]) throw std::logic_error(fmt::format("the field '{}' is not read", name_of(name)));
  }
}

void check_count(std::size_t count, const std::string& place) {
  if (count == 0) refuse_member(place, "is empty");
  if (count > max_texts) refuse_member(place, fmt::format("has {} texts; accepted: at most {}", count, max_texts));
}

}  // namespace gpux::server
