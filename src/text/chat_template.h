#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace gpux::text {

/// A chat template: Jinja as transformers' apply_chat_template() has it, with tojson, raise_exception, strftime_now,
/// the tag `generation`, loop controls, and Python's methods, numbers and printing. The text is byte-equal with that of
/// transformers. It cannot change values, include files or run code. Not supported, and errors: the tags block,
/// extends, include, import and autoescape; the filters pprint, random, striptags, truncate, urlencode, urlize,
/// wordcount, wordwrap, xmlattr, filesizeformat and forceescape; joiner, cycler and lipsum; varargs and kwargs of
/// macros. As in Jinja, a filter or a test that there is not is an error where it is read, but behind a condition where
/// it is used.
///
/// Never changed once it is made: may be used by several threads at once. Copies are the same one.
class ChatTemplate {
 public:
  static constexpr std::size_t max_text_bytes = std::size_t{64} << 20;

  /// `source` is UTF-8, up to 1 MiB. Error invalid_model, with the line where one is known.
  static ChatTemplate compile(std::string_view source);

  /// The text for `values`, a JSON object whose members are the template's variables: messages, tools, documents,
  /// add_generation_prompt, bos_token, eos_token and what else the template reads. Numbers and the order of keys are
  /// kept. A variable that is not there is undefined, which is not the same as null. strftime_now() writes `now` as
  /// local time.
  ///
  /// The work is limited by the size of the values, the nesting of the values to 64 levels, and that of macros and
  /// loops to 200. Errors invalid_input (no JSON object; what the template says by raise_exception(); values that it
  /// does not take; above `max_bytes`), invalid_model (it takes too many steps, or uses an unknown function, filter or
  /// test).
  [[nodiscard]] std::string render(std::string_view values,
                                   std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                   std::size_t max_bytes = max_text_bytes) const;

 private:
  struct State;

  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace gpux::text
