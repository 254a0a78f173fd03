#include "server/protocols/tei/inputs_member.h"

#include <algorithm>

#include "gpux/error.h"
#include "tensor/json_envelope.h"

namespace gpux::server::tei {

bool has_inputs_member(const ServedModel& model, std::string_view body) {
  if (!is_object(body)) return false;
  const auto is_inputs = [](const auto& one) { return one.name == "inputs"; };
  if (std::ranges::any_of(model.signature().inputs, is_inputs)) return false;
  try {
    return std::ranges::any_of(split_object(body), is_inputs);
  } catch (const Error&) {
    return false;  // the reader of the body refuses it
  }
}

}  // namespace gpux::server::tei
