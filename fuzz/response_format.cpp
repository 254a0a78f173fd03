// Members of requests that say which form an answer has.
#include "generation/response_format.h"

#include <functional>

#include "fuzzer.h"
#include "gpux/error.h"

namespace {

using gpux::OutputConstraint;

void read(const std::function<OutputConstraint()>& reader) {
  try {
    const OutputConstraint constraint = reader();
    const bool has_text =
        constraint.kind != OutputConstraint::Kind::none && constraint.kind != OutputConstraint::Kind::json_object;
    gpux::fuzz::require(has_text || constraint.text.empty(), "a text where there is none");
  } catch (const gpux::Error& error) {
    gpux::fuzz::require(error.code() == gpux::ErrorCode::invalid_input, "refused as something else");
  }
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  read([&] { return generation::read_response_format(input); });
  read([&] { return generation::read_openai_constraint(input); });
  read([&] { return generation::read_ollama_constraint(input); });
}
