#include "onnx/stored_caches.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/graph_writer.h"
#include "onnx/model_file.h"

namespace gpux::onnx {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

/// A decoder of two attentions of 4 heads and 2 of keys, of 8 elements each, and what may differ in the second.
struct Attentions {
  ElementType type = ElementType::float32;
  bool rotates = true, is_packed = false;
  const char* extra_input = "";     // attention_bias of the second
  const char* read_elsewhere = "";  // a value that another node reads, too
  std::string second_past = "past_key_values.1.key";
  bool has_head_size = true;
  std::int64_t head_size = 8;

  [[nodiscard]] std::string model() const {
    GraphWriter graph("decoder");
    graph.input("last_positions", ElementType::int32, std::array<WrittenSize, 1>{"batch"});
    graph.input("total_length", ElementType::int32, {});
    graph.input("hidden", type, std::array<WrittenSize, 3>{"batch", "sequence", std::int64_t{32}});
    const std::int64_t key_width = 16;
    graph.input("key", type, std::array<WrittenSize, 3>{"batch", "sequence", key_width});
    graph.input("extra", type, std::array<WrittenSize, 1>{"extra"});
    const auto cache = [&](const char* length) {
      return std::array<WrittenSize, 4>{"batch", std::int64_t{2}, length,
                                        has_head_size ? WrittenSize(head_size) : WrittenSize("head_size")};
    };
    graph.floats("cosines", std::vector<float>(64, 1), {16, 4});
    graph.floats("sines", std::vector<float>(64, 0), {16, 4});
    std::string hidden = "hidden";
    for (const char* layer : {"0", "1"}) {
      const bool is_second = *layer == '1';
      const auto name = [&](const char* stem, const char* part) { return std::string(stem) + layer + part; };
      for (const char* part : {".key", ".value"}) {
        graph.input(name("past_key_values.", part), type, cache("past_sequence"));
        graph.output(name("present.", part), type, cache("total_sequence"));
      }
      std::vector<std::string> inputs{hidden,
                                      is_packed ? "" : "key",
                                      is_packed ? "" : "key",
                                      is_second ? second_past : name("past_key_values.", ".key"),
                                      name("past_key_values.", ".value"),
                                      "last_positions",
                                      "total_length"};
      if (rotates) inputs.insert(inputs.end(), {"cosines", "sines"});
      if (is_second && *extra_input != '\0') inputs.insert(inputs.end(), {"", extra_input});
      graph.contributed_node("GroupQueryAttention", inputs,
                             {{"num_heads", std::int64_t{4}},
                              {"kv_num_heads", std::int64_t{2}},
                              {"local_window_size", std::int64_t{is_second ? 8 : -1}}},
                             {name("attended.", ""), name("present.", ".key"), name("present.", ".value")});
      hidden = graph.node("Add", {name("attended.", ""), name("attended.", "")});
    }
    if (*read_elsewhere != '\0') {
      graph.output(graph.node("Neg", {read_elsewhere}), type, cache("total_sequence"));
    }
    graph.output(hidden, type, std::array<WrittenSize, 3>{"batch", "sequence", std::int64_t{32}});
    return graph.model(opset, ir_version);
  }

  std::int64_t opset = 17, ir_version = 8;
};

ModelInfo read(const std::string& content) {
  return inspect(content, "model.onnx");
}

ElementType type_of(const std::vector<SignatureEntry>& entries, const std::string& name) {
  return std::ranges::find(entries, name, &SignatureEntry::name)->type.element;
}

std::vector<std::string> types_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> types;
  for (const SignatureEntry& entry : entries) types.push_back(entry.name + " " + to_string(entry.type));
  return types;
}

TEST(Float16Caches, ChangeKeysAndValuesAlone) {
  const auto changed = with_stored_caches(Attentions().model(), CacheUse::float16_computed);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->stored.values.size(), 8);
  const Signature signature = read(changed->content).signature;
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.type.element == ElementType::int32) continue;
    EXPECT_EQ(entry.type.element,
              changed->stored.values.contains(entry.name) ? ElementType::float16 : ElementType::float32)
        << entry.name;
    if (!changed->stored.values.contains(entry.name)) continue;
    EXPECT_EQ(to_string(entry.type), "float16[batch, 2, past_sequence, 8]");
  }
  EXPECT_EQ(type_of(signature.outputs, "present.0.key"), ElementType::float16);
  EXPECT_EQ(type_of(signature.outputs, "present.1.value"), ElementType::float16);
  EXPECT_EQ(type_of(signature.outputs, signature.outputs.back().name), ElementType::float32);
  EXPECT_EQ(with_stored_caches(changed->content, CacheUse::float16_computed), std::nullopt);
}

// Cosines, sines and the keys that both attentions read are cast once: hidden, key, cosines, sines, the second hidden,
// and both results.
TEST(Float16Caches, CastEachValueOnce) {
  const auto changed = with_stored_caches(Attentions().model(), CacheUse::float16_computed);
  ASSERT_TRUE(changed.has_value());
  const ModelInfo info = read(changed->content);
  EXPECT_EQ(info.operators.at("Cast"), 7);
  EXPECT_EQ(info.operators.at("com.microsoft::GroupQueryAttention"), 2);
}

TEST(Float16Caches, HaveAFormForEachKindOfAttention) {
  const auto changed = with_stored_caches(Attentions().model(), CacheUse::float16_computed);
  ASSERT_TRUE(changed.has_value());
  EXPECT_EQ(changed->forms.size(), 2);  // their windows differ
  for (const CachedAttentionForm& form : changed->forms) {
    EXPECT_EQ(std::vector({form.heads, form.kv_heads, form.head_size, form.rotary_size}),
              std::vector<std::int64_t>({4, 2, 8, 4}));
    EXPECT_FALSE(form.is_packed);
    EXPECT_EQ(form.attributes.size(), 3);
  }
  const auto packed =
      with_stored_caches(Attentions{.rotates = false, .is_packed = true}.model(), CacheUse::float16_computed);
  ASSERT_TRUE(packed.has_value());
  EXPECT_TRUE(packed->forms.begin()->is_packed);
  EXPECT_EQ(packed->forms.begin()->rotary_size, 0);
}

TEST(Float16Caches, AreNotMadeOfOtherModels) {
  EXPECT_EQ(with_stored_caches(Attentions{.type = ElementType::float16}.model(), CacheUse::float16_computed),
            std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.extra_input = "extra"}.model(), CacheUse::float16_computed), std::nullopt);
  EXPECT_EQ(
      with_stored_caches(Attentions{.read_elsewhere = "past_key_values.0.value"}.model(), CacheUse::float16_computed),
      std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.read_elsewhere = "present.1.key"}.model(), CacheUse::float16_computed),
            std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.second_past = "past_key_values.0.key"}.model(), CacheUse::float16_computed),
            std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.second_past = ""}.model(), CacheUse::float16_computed), std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.has_head_size = false}.model(), CacheUse::float16_computed), std::nullopt);
  EXPECT_EQ(with_stored_caches(GraphWriter("empty").model(17, 8), CacheUse::float16_computed), std::nullopt);
}

TEST(Int8Caches, ChangeKeysAndValuesAlone) {
  for (const auto& [head_size, type] :
       {std::pair(16, "int8[batch, 2, past_sequence, 18]"), std::pair(48, "int8[batch, 2, past_sequence, 54]"),
        std::pair(128, "int8[batch, 2, past_sequence, 136]")}) {
    const std::string model = Attentions{.head_size = head_size}.model();
    const auto changed = with_stored_caches(model, CacheUse::int8_stored);
    ASSERT_TRUE(changed.has_value());
    EXPECT_EQ(changed->stored.element, ElementType::int8);
    EXPECT_EQ(changed->stored.values.size(), 8);
    Signature before = read(model).signature;
    const ModelInfo after = read(changed->content);
    EXPECT_EQ(
        to_string(std::ranges::find(after.signature.inputs, "past_key_values.0.key", &SignatureEntry::name)->type),
        type);
    EXPECT_EQ(after.operators.at("gpux.int8_rows::FromInt8Rows"), 4);
    EXPECT_EQ(after.operators.at("gpux.int8_rows::ToInt8Rows"), 4);
    set_types(before.inputs, changed->stored);
    set_types(before.outputs, changed->stored);
    EXPECT_EQ(types_of(before.inputs), types_of(after.signature.inputs));
    EXPECT_EQ(types_of(before.outputs), types_of(after.signature.outputs));
    EXPECT_EQ(with_stored_caches(changed->content, CacheUse::int8_stored), std::nullopt);
  }
}

TEST(Int8Caches, AreNotMadeOfOtherModels) {
  EXPECT_EQ(with_stored_caches(Attentions{.head_size = 8}.model(), CacheUse::int8_stored), std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.head_size = 40}.model(), CacheUse::int8_stored), std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.head_size = 32, .ir_version = 7}.model(), CacheUse::int8_stored),
            std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.head_size = 32, .opset = 12}.model(), CacheUse::int8_stored), std::nullopt);
  EXPECT_EQ(with_stored_caches(Attentions{.has_head_size = false}.model(), CacheUse::int8_stored), std::nullopt);
}

TEST(Float16Caches, HaveAnExampleOfEachForm) {
  const auto changed = with_stored_caches(Attentions().model(), CacheUse::float16_computed);
  ASSERT_TRUE(changed.has_value());
  const std::string example = cached_attention_example(changed->forms);
  const ModelInfo info = read(example);
  EXPECT_EQ(info.operators.at("com.microsoft::GroupQueryAttention"), 2);
  EXPECT_EQ(info.signature.outputs.front().name, "attended.0");
  const auto again = with_stored_caches(example, CacheUse::float16_computed);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->forms, changed->forms);
  EXPECT_EQ(again->stored.values.size(), 8);
}

}  // namespace
}  // namespace gpux::onnx
