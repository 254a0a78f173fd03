#include "server/protocols/tei/image_labels.h"

#include <array>

#include <fmt/format.h>

#include "gpux/error.h"
#include "server/protocols/encoded_image.h"
#include "server/protocols/request_json.h"
#include "tensor/json_envelope.h"

namespace gpux::server {
namespace {

using enum FieldKind;
using enum FieldUse;

constexpr std::array<Field, 2> label_table{{{"inputs", other, required}, {"parameters", object, required}}};

constexpr std::array<Field, 3> label_parameter_table{{
    {"candidate_labels", other, required},
    {"hypothesis_template", text},
    {"top_k", count},
}};

}  // namespace

bool is_image_label_request(std::string_view body) {
  if (!is_object(body)) return false;
  try {
    bool has_inputs = false;
    bool has_parameters = false;
    for (const JsonInput& member : split_object(body)) {
      has_inputs = has_inputs || member.name == "inputs";
      has_parameters = has_parameters || member.name == "parameters";
    }
    return has_inputs && has_parameters;
  } catch (const Error&) {
    return false;  // whoever reads it next says what is wrong
  }
}

ImageLabels read_image_labels(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", label_table, reading.rules);
  ImageLabels read;
  const RequestJson& inputs = members.must_find("inputs");
  read.is_list = inputs.is_array();
  if (read.is_list) {
    check_count(inputs.size(), "inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      read.images.push_back(read_image(inputs[i], fmt::format("inputs[{}]", i)).value);
    }
  } else {
    read.images.push_back(read_image(inputs, "inputs").value);
  }
  Members parameters = members.inside(members.must_find("parameters"), "parameters", label_parameter_table);
  const RequestJson& labels = parameters.must_find("candidate_labels");
  if (!labels.is_array()) refuse_member("parameters.candidate_labels", "is no list");
  check_count(labels.size(), "parameters.candidate_labels");
  for (const RequestJson& label : labels) {
    if (!label.is_string()) refuse_member("parameters.candidate_labels", "has a value that is no text");
    read.labels.push_back(label.get<std::string>());
  }
  read.label_template = parameters.text("hypothesis_template");
  read.top_k = parameters.count("top_k");
  parameters.finish();
  members.finish();
  return read;
}

}  // namespace gpux::server
