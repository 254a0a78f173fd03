#include "onnx/stored_caches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "gpux/tensor.h"
#include "onnx/graph_text.h"
#include "onnx/graph_writer.h"
#include "onnx/int8_rows.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/value_type.h"

namespace gpux::onnx {
namespace {

using Name = std::string_view;

constexpr Name operator_type = "GroupQueryAttention", contributed_domain = "com.microsoft";
constexpr Name made_prefix = "gpux_stored/";
constexpr std::size_t cache_rank = 4;

/// The places of its inputs.
constexpr std::size_t query = 0, key = 1, value = 2, past_key = 3, past_value = 4, cosines = 7, sines = 8;
constexpr std::array<std::size_t, 5> floating_inputs{query, key, value, cosines, sines};

bool is_cached_attention(const NodeText& node) {
  return node.type == operator_type && node.domain == contributed_domain;
}

/// The types of the inputs or outputs of a graph.
std::map<Name, ValueType> types_of(std::string_view text, std::uint32_t field) {
  std::map<Name, ValueType> types;
  for (Message graph(text); graph.next();) {
    if (graph.field() != field) continue;
    const Name name = name_of_value(graph.message());
    for (Message entry = graph.message(); entry.next();) {
      if (entry.field() == schema::value_info::type) types.insert_or_assign(name, read_type(entry.message()));
    }
  }
  return types;
}

/// Appends a message with another message in place of each field of that number.
template <typename Changed>
void append_changed(std::string& to, std::string_view text, std::uint32_t field, const Changed& changed) {
  for (Message message(text); message.next();) {
    if (message.field() != field) {
      to += message.raw();
      continue;
    }
    const std::string content = changed(message.bytes());
    protozero::pbf_writer(to).add_message(field, content);
  }
}

// A TensorShapeProto of four sizes; the last one is given.
std::string with_row_size(std::string_view shape, std::int64_t size) {
  std::string changed;
  std::size_t axis = 0;
  append_changed(changed, shape, schema::shape::dim, [&](std::string_view dimension) {
    if (++axis < cache_rank) return std::string(dimension);
    std::string last;
    protozero::pbf_writer(last).add_int64(schema::dimension::value, size);
    return last;
  });
  return changed;
}

// A ValueInfoProto of a tensor. `row_size`: its last size; 0: stays.
std::string with_type(std::string_view value_info, ElementType element, std::int64_t row_size) {
  std::string changed;
  append_changed(changed, value_info, schema::value_info::type, [&](std::string_view type) {
    std::string with_tensor;
    append_changed(with_tensor, type, schema::type::tensor, [&](std::string_view tensor) {
      std::string with_element;
      for (Message message(tensor); message.next();) {
        if (message.field() == schema::tensor_type::elem_type) continue;
        if (message.field() == schema::tensor_type::shape && row_size != 0) {
          const std::string shape = with_row_size(message.bytes(), row_size);
          protozero::pbf_writer(with_element).add_message(schema::tensor_type::shape, shape);
        } else {
          with_element += message.raw();
        }
      }
      protozero::pbf_writer(with_element).add_int32(schema::tensor_type::elem_type, static_cast<std::int32_t>(element));
      return with_element;
    });
    return with_tensor;
  });
  return changed;
}

class Conversion {
 public:
  Conversion(std::string_view graph, CacheUse use)
      : use_(use),
        text_(graph),
        graph_(graph),
        inputs_(types_of(graph, schema::graph::input)),
        outputs_(types_of(graph, schema::graph::output)),
        writer_({}, made_prefix) {}

  /// Without the content. Empty: the graph cannot be changed.
  std::optional<ChangedCaches> run() {
    result_.stored.element = use_ == CacheUse::int8_stored ? ElementType::int8 : ElementType::float16;
    if (graph_.has_names_with(made_prefix)) return std::nullopt;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (is_cached_attention(graph_.nodes()[i]) && !convert(i)) return std::nullopt;
    }
    if (result_.forms.empty()) return std::nullopt;
    return result_;
  }

  /// What a head has in the model; 0 where its rows stay of that size.
  [[nodiscard]] std::int64_t int8_head_size() const noexcept { return row_size_ == 0 ? 0 : head_size_; }

  [[nodiscard]] std::string fields(const std::set<std::string>& values) const {
    std::string fields;
    fields.reserve(text_.size() + writer_.fields().size() + made_prefix.size() * values.size());
    std::size_t node = 0;
    for (Message graph(text_); graph.next();) {
      const std::uint32_t field = graph.field();
      if (field == schema::graph::node) {
        const auto replaced = replaced_.find(node++);
        fields += replaced == replaced_.end() ? graph.raw() : std::string_view(replaced->second);
        continue;
      }
      const bool has_value =
          field == schema::graph::input || field == schema::graph::output || field == schema::graph::value_info;
      if (has_value && values.contains(std::string(name_of_value(graph.message())))) {
        const std::string changed = with_type(graph.bytes(), result_.stored.element, row_size_);
        protozero::pbf_writer(fields).add_message(field, changed);
      } else {
        fields += graph.raw();
      }
    }
    return fields;
  }

 private:
  // The sizes of a cache that only this place has; none: it cannot be changed.
  [[nodiscard]] std::optional<std::pair<std::int64_t, std::int64_t>> cache_of(const std::map<Name, ValueType>& entries,
                                                                              Name name) const {
    const auto entry = entries.find(name);
    if (entry == entries.end() || graph_.uses_of(name) != 1) return std::nullopt;
    const ValueType& type = entry->second;
    if (type.kind != ValueKind::tensor || type.element != ElementType::float32) return std::nullopt;
    if (!type.dimensions || type.dimensions->size() != cache_rank) return std::nullopt;
    const Dimension &heads = (*type.dimensions)[1], &head_size = (*type.dimensions)[3];
    if (!heads.size || !head_size.size || *heads.size <= 0 || *head_size.size <= 0) return std::nullopt;
    return std::pair(*heads.size, *head_size.size);
  }

  [[nodiscard]] std::optional<CachedAttentionForm> form_of(const NodeText& node) const {
    for (std::size_t i = sines + 1; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].empty()) return std::nullopt;
    }
    if (node.outputs.size() != 3 || node.outputs[0].empty() || outputs_.contains(node.outputs[0])) return std::nullopt;
    const auto sizes = cache_of(inputs_, input_of(node, past_key));
    if (!sizes || cache_of(inputs_, input_of(node, past_value)) != sizes) return std::nullopt;
    if (cache_of(outputs_, node.outputs[1]) != sizes || cache_of(outputs_, node.outputs[2]) != sizes) {
      return std::nullopt;
    }
    CachedAttentionForm form{.heads = integer_attribute(node, "num_heads", 0),
                             .kv_heads = sizes->first,
                             .head_size = sizes->second,
                             .rotary_size = 0,
                             .is_packed = input_of(node, key).empty(),
                             .attributes = {node.attributes.begin(), node.attributes.end()}};
    if (form.heads <= 0 || form.is_packed != input_of(node, value).empty()) return std::nullopt;
    if (const Name table = input_of(node, cosines); !table.empty()) {
      const Sizes* rows = graph_.sizes_of(table);
      if (rows == nullptr || rows->size() != 2 || rows->back() <= 0) return std::nullopt;
      form.rotary_size = rows->back();
    }
    return form;
  }

  static std::string made_name(Name value) { return fmt::format("{}{}", made_prefix, value); }

  void write_cast(const std::string& from, ElementType type, const std::string& to) {
    writer_.node("Cast", {from}, {{"to", static_cast<std::int64_t>(type)}}, to);
  }

  // What the node reads in place of the value. The cast is written once, before the first node that reads it.
  std::string cast(Name value, ElementType type) {
    if (value.empty()) return {};
    std::string made = made_name(value);
    if (cast_.insert(value).second) write_cast(std::string(value), type, made);
    return made;
  }

  void write_computed(const NodeText& node, std::vector<std::string> inputs) {
    for (const std::size_t input : floating_inputs) {
      if (input < inputs.size()) inputs[input] = cast(node.inputs[input], ElementType::float16);
    }
    const std::string attended(node.outputs[0]);
    writer_.contributed_node(operator_type, inputs, node.attributes,
                             {made_name(attended), std::string(node.outputs[1]), std::string(node.outputs[2])});
    write_cast(made_name(attended), ElementType::float32, attended);
  }

  void write_stored(const NodeText& node, std::vector<std::string> inputs) {
    const bool is_int8 = use_ == CacheUse::int8_stored;
    for (const std::size_t input : {past_key, past_value}) {
      if (is_int8) {
        inputs[input] = made_name(node.inputs[input]);
        writer_.node_of(int8_rows_domain, from_int8_rows, {std::string(node.inputs[input])}, {inputs[input]});
      } else {
        inputs[input] = cast(node.inputs[input], ElementType::float32);
      }
    }
    writer_.contributed_node(operator_type, inputs, node.attributes,
                             {std::string(node.outputs[0]), made_name(node.outputs[1]), made_name(node.outputs[2])});
    for (const std::size_t output : {1, 2}) {
      const std::string made = made_name(node.outputs[output]), stored(node.outputs[output]);
      if (is_int8) {
        writer_.node_of(int8_rows_domain, to_int8_rows, {made}, {stored});
      } else {
        write_cast(made, ElementType::float16, stored);
      }
    }
  }

  // Rows of all nodes are of one size, for which the functions are written.
  bool take_int8_rows(const CachedAttentionForm& form) {
    if (use_ != CacheUse::int8_stored) return true;
    if (head_size_ == 0) head_size_ = form.head_size;
    if (head_size_ != form.head_size || int8_block_size(head_size_) == 0) return false;
    row_size_ = int8_row_size(head_size_);
    return true;
  }

  bool convert(std::size_t place) {
    const NodeText& node = graph_.nodes()[place];
    std::optional<CachedAttentionForm> form = form_of(node);
    if (!form || !take_int8_rows(*form)) return false;
    const std::size_t begin = writer_.fields().size();
    const std::vector<std::string> inputs(node.inputs.begin(), node.inputs.end());
    if (use_ == CacheUse::float16_computed) {
      write_computed(node, inputs);
    } else {
      write_stored(node, inputs);
    }
    replaced_.emplace(place, writer_.fields().substr(begin));
    result_.stored.values.insert(
        {inputs[past_key], inputs[past_value], std::string(node.outputs[1]), std::string(node.outputs[2])});
    result_.forms.insert(*std::move(form));
    return true;
  }

  CacheUse use_;
  std::int64_t head_size_ = 0, row_size_ = 0;  // of int8 rows
  std::string_view text_;
  GraphText graph_;
  std::map<Name, ValueType> inputs_, outputs_;
  GraphWriter writer_;
  std::map<std::size_t, std::string> replaced_;  // by the node whose place it takes
  std::set<Name> cast_;
  ChangedCaches result_;
};

/// The cosines or sines of an example.
std::vector<float> rotary_table(std::int64_t width, float (*compute)(float)) {
  std::vector<float> table;
  for (std::int64_t position = 0; position < cached_attention_example_length; ++position) {
    for (std::int64_t i = 0; i < width; ++i) {
      table.push_back(compute(static_cast<float>(position) / static_cast<float>(i + 1)));
    }
  }
  return table;
}

/// The inputs of an example's attention; the graph gets them and its outputs.
class ExampleAttention {
 public:
  ExampleAttention(GraphWriter& graph, const CachedAttentionForm& form, std::size_t number)
      : graph_(graph), form_(form), number_(number) {}

  void write() {
    const std::int64_t kv_heads = form_.is_packed ? 2 * form_.kv_heads : 0;
    std::vector<std::string> inputs{tokens("query", form_.heads + kv_heads)};
    for (const char* part : {"key", "value"}) {
      inputs.push_back(form_.is_packed ? std::string() : tokens(part, form_.kv_heads));
    }
    for (const char* part : {"key", "value"}) inputs.push_back(past(part));
    inputs.insert(inputs.end(), {"last_positions", "total_length"});
    if (form_.rotary_size != 0) {
      inputs.push_back(table("cosines", [](float angle) { return std::cos(angle); }));
      inputs.push_back(table("sines", [](float angle) { return std::sin(angle); }));
    }
    const std::vector<std::string_view> attributes(form_.attributes.begin(), form_.attributes.end());
    const std::string result = name("computed", "");
    graph_.contributed_node(operator_type, inputs, attributes,
                            {result, name("present", ".key"), name("present", ".value")});
    (void)graph_.node("Identity", {result}, {}, name("attended", ""));
  }

  void declare_result() {
    graph_.output(name("attended", ""), ElementType::float32,
                  std::array<WrittenSize, 3>{std::int64_t{1}, "sequence", form_.heads * form_.head_size});
  }

  void declare_caches() {
    for (const char* part : {".key", ".value"}) {
      graph_.output(name("present", part), ElementType::float32, cache_sizes("total_sequence"));
    }
  }

 private:
  [[nodiscard]] std::string name(Name stem, Name part) const { return fmt::format("{}.{}{}", stem, number_, part); }

  [[nodiscard]] std::array<WrittenSize, cache_rank> cache_sizes(const char* length) const {
    return {std::int64_t{1}, form_.kv_heads, length, form_.head_size};
  }

  std::string tokens(Name stem, std::int64_t heads) {
    std::string made = name(stem, "");
    graph_.input(made, ElementType::float32,
                 std::array<WrittenSize, 3>{std::int64_t{1}, "sequence", heads * form_.head_size});
    return made;
  }

  std::string past(const char* part) {
    std::string made = fmt::format("past_key_values.{}.{}", number_, part);
    graph_.input(made, ElementType::float32, cache_sizes("past_sequence"));
    return made;
  }

  std::string table(Name stem, float (*compute)(float)) {
    return graph_.floats(name(stem, ""), rotary_table(form_.rotary_size, compute),
                         {cached_attention_example_length, form_.rotary_size});
  }

  GraphWriter& graph_;
  const CachedAttentionForm& form_;
  std::size_t number_;
};

}  // namespace

std::optional<ChangedCaches> with_stored_caches(std::string_view content, CacheUse use) {
  if (content.size() > max_rewritten_bytes) return std::nullopt;
  ModelParts parts = split_model(content);
  Conversion conversion(parts.graph, use);
  std::optional<ChangedCaches> result = conversion.run();
  if (!result) return std::nullopt;
  if (const std::int64_t head_size = conversion.int8_head_size(); head_size != 0) {
    if (!append_int8_functions(parts.head, head_size)) return std::nullopt;
  }
  const std::string fields = conversion.fields(result->stored.values);
  result->content = std::move(parts.head);
  append_graph_key(result->content, fields);
  result->content += fields;
  return result;
}

void set_types(std::span<SignatureEntry> entries, const StoredCaches& stored) {
  for (SignatureEntry& entry : entries) {
    if (!stored.values.contains(entry.name) || entry.type.element != ElementType::float32) continue;
    if (stored.element == ElementType::int8) {
      if (!entry.type.dimensions || entry.type.dimensions->empty()) continue;
      Dimension& row = entry.type.dimensions->back();
      if (!row.size || int8_row_size(*row.size) == 0) continue;
      row.size = int8_row_size(*row.size);
    }
    entry.type.element = stored.element;
  }
}

std::string cached_attention_example(const std::set<CachedAttentionForm>& forms) {
  constexpr std::int64_t opset = 17, ir_version = 8;
  GraphWriter graph("example");
  graph.input("last_positions", ElementType::int32, std::array<WrittenSize, 1>{std::int64_t{1}});
  graph.input("total_length", ElementType::int32, {});
  std::vector<ExampleAttention> attentions;
  for (const CachedAttentionForm& form : forms) attentions.emplace_back(graph, form, attentions.size());
  for (ExampleAttention& attention : attentions) attention.write();
  for (ExampleAttention& attention : attentions) attention.declare_result();
  for (ExampleAttention& attention : attentions) attention.declare_caches();
  return graph.model(opset, ir_version);
}

}  // namespace gpux::onnx
