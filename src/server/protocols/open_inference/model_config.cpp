#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "server/models/triton_config.h"
#include "server/protocols/open_inference/messages.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

void append_value(std::string& out, const SignatureEntry& entry, bool can_batch, bool is_input) {
  out += R"({"name":)";
  append_json_string(out, entry.name);
  out += fmt::format(R"(,"data_type":"{}","dims":[)", triton_type(entry.type));
  // Where max_batch_size is given, the batch axis is not among the dimensions.
  const std::size_t first = can_batch ? 1 : 0;
  if (entry.type.dimensions) {
    for (std::size_t i = first; i < entry.type.dimensions->size(); ++i) {
      if (i != first) out += ',';
      out += std::to_string((*entry.type.dimensions)[i].size.value_or(-1));
    }
  }
  out += ']';
  if (is_input) out += fmt::format(R"(,"optional":{})", !entry.required);
  out += '}';
}

}  // namespace

void append_model_config(std::string& out, const ModelDescription& model) {
  out += R"({"name":)";
  append_json_string(out, model.name);
  out += fmt::format(R"(,"platform":"onnx_onnxv1","backend":"onnxruntime","max_batch_size":{},"input":[)",
                     model.can_batch ? std::min<std::int64_t>(model.options.max_batch_size, INT32_MAX) : 0);
  const auto values = [&](const std::vector<SignatureEntry>& entries, bool are_inputs) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out += ',';
      append_value(out, entries[i], model.can_batch, are_inputs);
    }
    out += ']';
  };
  values(model.signature.inputs, true);
  out += R"(,"output":[)";
  values(model.signature.outputs, false);
  if (model.can_batch) {
    out += fmt::format(R"(,"dynamic_batching":{{"max_queue_delay_microseconds":{}}})",
                       model.options.max_queue_delay.count());
  }
  out += '}';
}

}  // namespace gpux::server
