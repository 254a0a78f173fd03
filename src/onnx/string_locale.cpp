#include "onnx/string_locale.h"

#include <cstdint>

#include <protozero/pbf_writer.hpp>

#include "onnx/message.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

constexpr std::int32_t string_attribute = 3;

// Copies a model's fields, with another locale in nodes.
class Rewriter {
 public:
  explicit Rewriter(std::string_view locale) : locale_(locale) {}

  std::string model(Message model) {
    return copy(model, [this](const Message& field) -> std::optional<std::string> {
      if (field.field() == schema::model::graph) return graph(field.message());
      if (field.field() == schema::model::functions) return nodes_of(field.message(), schema::function::node);
      return std::nullopt;
    });
  }

  [[nodiscard]] bool has_changed() const noexcept { return has_changed_; }

 private:
  // Each field as it is, or the message that `changed` makes of it.
  template <typename Changed>
  static std::string copy(Message message, const Changed& changed) {
    std::string out;
    while (message.next()) {
      if (const std::optional<std::string> other = changed(message)) {
        protozero::pbf_writer(out).add_message(message.field(), *other);
      } else {
        out += message.raw();
      }
    }
    return out;
  }

  std::string graph(const Message& graph) { return nodes_of(graph, schema::graph::node); }

  std::string nodes_of(const Message& of, std::uint32_t node_field) {
    return copy(of, [&](const Message& field) -> std::optional<std::string> {
      if (field.field() != node_field) return std::nullopt;
      return node(field.message());
    });
  }

  std::string node(const Message& node) {
    if (normalizes_in_english(node)) return with_other_locale(node);
    return copy(node, [&](const Message& field) -> std::optional<std::string> {
      if (field.field() != schema::node::attribute) return std::nullopt;
      return copy(field.message(), [&](const Message& member) -> std::optional<std::string> {
        const bool is_graph = member.field() == schema::attribute::g || member.field() == schema::attribute::graphs;
        if (!is_graph) return std::nullopt;
        return graph(member.message());
      });
    });
  }

  static bool is_locale(Message attribute) {
    while (attribute.next()) {
      if (attribute.field() == schema::attribute::name) return attribute.bytes() == "locale";
    }
    return false;
  }

  static std::string_view text_of(Message attribute) {
    std::string_view text;
    while (attribute.next()) {
      if (attribute.field() == schema::attribute::s) text = attribute.bytes();
    }
    return text;
  }

  static bool normalizes_in_english(Message node) {
    bool is_normalizer = false;
    std::string_view locale;
    while (node.next()) {
      if (node.field() == schema::node::op_type) is_normalizer = node.bytes() == "StringNormalizer";
      if (node.field() == schema::node::domain && !node.bytes().empty() && node.bytes() != "ai.onnx") return false;
      if (node.field() == schema::node::attribute && is_locale(node.message())) locale = text_of(node.message());
    }
    return is_normalizer && (locale.empty() || locale == "en_US" || locale.starts_with("en_US."));
  }

  std::string with_other_locale(Message node) {
    has_changed_ = true;
    std::string out;
    while (node.next()) {
      const bool is_left_out = node.field() == schema::node::attribute && is_locale(node.message());
      if (!is_left_out) out += node.raw();
    }
    protozero::pbf_writer writer(out);
    protozero::pbf_writer attribute(writer, schema::node::attribute);
    attribute.add_string(schema::attribute::name, "locale");
    attribute.add_bytes(schema::attribute::s, locale_.data(), locale_.size());
    attribute.add_enum(schema::attribute::type, string_attribute);
    attribute.commit();
    return out;
  }

  std::string_view locale_;
  bool has_changed_ = false;
};

}  // namespace

std::optional<std::string> with_locale(std::string_view model, std::string_view locale) {
  Rewriter rewriter(locale);
  try {
    std::string changed = rewriter.model(Message(model));
    if (!rewriter.has_changed()) return std::nullopt;
    return changed;
  } catch (const MalformedMessage&) {
    return std::nullopt;
  }
}

}  // namespace gpux::onnx
