#include "onnx/model_functions.h"

#include <protozero/pbf_writer.hpp>

#include "onnx/int8_rows.h"
#include "onnx/message.h"
#include "onnx/schema.h"
#include "onnx/small_weights.h"

namespace gpux::onnx {
namespace {

constexpr std::int64_t first_ir_with_functions = 8, first_opset = 13;

void add_import(protozero::pbf_writer& to, std::uint32_t field, std::string_view domain, std::int64_t version) {
  protozero::pbf_writer import(to, field);
  import.add_string(schema::opset::domain, domain.data(), domain.size());
  import.add_int64(schema::opset::version, version);
}

}  // namespace

bool is_domain_of_functions(std::string_view domain) noexcept {
  return domain == int8_rows_domain || domain == small_weights_domain;
}

std::optional<std::int64_t> opset_for_functions(std::string_view head, std::string_view domain) {
  std::int64_t ir = 0, opset = 0;
  for (Message model(head); model.next();) {
    if (model.field() == schema::model::ir_version) ir = model.integer();
    if (model.field() != schema::model::opset_import) continue;
    std::string_view imported;
    std::int64_t version = 0;
    for (Message import = model.message(); import.next();) {
      if (import.field() == schema::opset::domain) imported = import.bytes();
      if (import.field() == schema::opset::version) version = import.integer();
    }
    if (imported == domain) return std::nullopt;
    if (imported.empty() || imported == "ai.onnx") opset = version;
  }
  if (ir < first_ir_with_functions || opset < first_opset) return std::nullopt;
  return opset;
}

void append_function(std::string& head, const ModelFunction& function, std::int64_t opset) {
  protozero::pbf_writer model(head);
  protozero::pbf_writer written(model, schema::model::functions);
  written.add_string(schema::function::name, function.name.data(), function.name.size());
  written.add_string(schema::function::input, function.input.data(), function.input.size());
  written.add_string(schema::function::output, function.output.data(), function.output.size());
  for (Message graph(function.nodes); graph.next();) {
    if (graph.field() == schema::graph::node) {
      written.add_message(schema::function::node, graph.bytes().data(), graph.bytes().size());
    }
  }
  add_import(written, schema::function::opset_import, "", opset);
  written.add_string(schema::function::domain, function.domain.data(), function.domain.size());
}

void append_domain(std::string& head, std::string_view domain) {
  protozero::pbf_writer model(head);
  add_import(model, schema::model::opset_import, domain, 1);
}

}  // namespace gpux::onnx
