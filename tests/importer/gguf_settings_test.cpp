// What the metadata of a GGUF file makes of config.json, and the names of its tensors.
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "importer/gguf/model_settings.h"
#include "importer/gguf_bytes.h"

namespace gpux::importer::gguf {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A setting of the architecture: "rope.dimension_count".
struct Setting {
  std::string_view name;
  std::uint32_t type;
  std::string value;
};

Setting count(std::string_view name, std::uint32_t value) {
  return {name, 4, number(value)};
}

Setting real(std::string_view name, float value) {
  return {name, 6, number(value)};
}

Setting flag(std::string_view name, bool value) {
  return {name, 7, number(static_cast<std::uint8_t>(value))};
}

Setting words(std::string_view name, std::string_view value) {
  return {name, 8, text(value)};
}

const Setting rms_epsilon = real("attention.layer_norm_rms_epsilon", 1e-6F);

/// A file with two layers of hidden size 8 and two heads, the settings, and vectors of two elements, 1 and 2.
std::string bytes_of(std::string_view architecture, const std::vector<Setting>& settings,
                     const std::vector<std::string_view>& vectors, std::uint32_t layers) {
  std::vector<Setting> all{count("block_count", layers), count("context_length", 64), count("embedding_length", 8),
                           count("feed_forward_length", 16), count("attention.head_count", 2)};
  all.insert(all.end(), settings.begin(), settings.end());
  std::string keys = key("general.architecture", 8, text(architecture));
  for (const Setting& one : all)
    keys += key(std::string(architecture) + "." + std::string(one.name), one.type, one.value);
  std::string tensors = description("token_embd.weight", {8, 4}, 0, 0), data(8 * 4 * sizeof(float), '\0');
  for (const std::string_view name : vectors) {
    tensors += description(name, {2}, 0, data.size());
    data += number(1.0F) + number(2.0F) + std::string(24, '\0');
  }
  std::string bytes = "GGUF" + number(std::uint32_t{3}) + number(std::uint64_t{1 + vectors.size()}) +
                      number(std::uint64_t{1 + all.size()}) + keys + tensors;
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + data;
}

struct FileSettings {
  const char* name;
  std::string_view architecture;
  std::vector<Setting> settings;
  const char* expected;  ///< a part of config.json, or of the message where it is refused
  std::vector<std::string_view> vectors{};
  std::uint32_t layers = 2;
};

void PrintTo(const FileSettings& settings, std::ostream* out) {
  *out << settings.name;
}

class GgufSettings : public testing::TestWithParam<FileSettings> {
 protected:
  static json config() {
    const auto& [name, architecture, settings, expected, vectors, layers] = GetParam();
    const test::TemporaryFolder folder;
    const GgufFile file(folder.write("model.gguf", bytes_of(architecture, settings, vectors, layers)));
    return json::parse(config_of(file).dump());
  }
};

class AcceptedSettings : public GgufSettings {};

TEST_P(AcceptedSettings, BecomeTheConfiguration) {
  const json made = config(), expected = json::parse(GetParam().expected);
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(made.contains(name)) << name;
    EXPECT_EQ(made.at(name), value) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AcceptedSettings,
    testing::Values(
        FileSettings{"gpt2",
                     "gpt2",
                     {real("attention.layer_norm_epsilon", 1e-5F)},
                     R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_inner": 16, "vocab_size": 4,
                         "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "num_attention_heads": 2,
                         "max_position_embeddings": 64, "tie_word_embeddings": true})"},
        FileSettings{"phi3",
                     "phi3",
                     {rms_epsilon, count("attention.sliding_window", 2047),
                      count("rope.scaling.original_context_length", 64), count("rope.dimension_count", 4)},
                     R"({"architectures": ["Phi3ForCausalLM"], "hidden_act": "silu", "sliding_window": 2047,
                         "rope_theta": 10000.0, "rms_norm_eps": 1e-06})"},
        FileSettings{"phi3_without_windows",
                     "phi3",
                     {rms_epsilon, count("attention.sliding_window", 0)},
                     R"({"sliding_window": null})"},
        FileSettings{"phi3_with_longrope",
                     "phi3",
                     {rms_epsilon, count("rope.scaling.original_context_length", 32), count("rope.dimension_count", 2),
                      real("rope.scaling.attn_factor", 1.25F)},
                     R"({"partial_rotary_factor": 0.5, "original_max_position_embeddings": 32,
                         "rope_scaling": {"rope_type": "longrope", "attention_factor": 1.25, "long_factor": [1.0, 2.0],
                                          "short_factor": [1.0, 2.0]}})",
                     {"rope_factors_long.weight", "rope_factors_short.weight"}},
        FileSettings{"gemma2_of_old_files",
                     "gemma2",
                     {rms_epsilon},
                     R"({"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 4096,
                         "query_pre_attn_scalar": 4, "layer_types": ["sliding_attention", "full_attention"]})"},
        FileSettings{"gemma2",
                     "gemma2",
                     {rms_epsilon, real("attn_logit_softcapping", 2), real("final_logit_softcapping", 3),
                      count("attention.sliding_window", 8), count("attention.key_length", 16)},
                     R"({"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "sliding_window": 8,
                         "query_pre_attn_scalar": 16, "hidden_activation": "gelu_pytorch_tanh"})"},
        // Of 27 billion weights: its scale is that of the hidden size.
        FileSettings{"gemma2_of_46_layers",
                     "gemma2",
                     {rms_epsilon, count("attention.key_length", 16)},
                     R"({"query_pre_attn_scalar": 4, "head_dim": 16})",
                     {},
                     46},
        FileSettings{"olmo2",
                     "olmo2",
                     {rms_epsilon, real("rope.freq_base", 500000)},
                     R"({"architectures": ["Olmo2ForCausalLM"], "rope_theta": 500000.0, "attention_bias": false})"},
        FileSettings{"granite",
                     "granite",
                     {rms_epsilon, real("attention.scale", 0.25F), real("embedding_scale", 12),
                      real("residual_scale", 0.22F), real("logit_scale", 8), count("vocab_size", 4)},
                     R"({"attention_multiplier": 0.25, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
                         "logits_scaling": 8.0, "architectures": ["GraniteForCausalLM"]})"},
        FileSettings{"granite_without_factors",
                     "granite",
                     {rms_epsilon, real("logit_scale", 1)},
                     R"({"attention_multiplier": 0.5, "embedding_multiplier": 1, "residual_multiplier": 1})"},
        FileSettings{"smollm3",
                     "smollm3",
                     {rms_epsilon, count("rope.dimension_count", 4)},
                     R"({"architectures": ["SmolLM3ForCausalLM"], "no_rope_layer_interval": 4})"}),
    [](const auto& info) { return std::string(info.param.name); });

class RefusedSettings : public GgufSettings {};

TEST_P(RefusedSettings, AreNamed) {
  try {
    (void)config();
    FAIL() << "they were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr(GetParam().expected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedSettings,
    testing::Values(FileSettings{"gpt2_with_rms_norms", "gpt2", {rms_epsilon}, "no gpt2.attention.layer_norm_epsilon"},
                    FileSettings{"gpt2_with_grouped_heads",
                                 "gpt2",
                                 {real("attention.layer_norm_epsilon", 1e-5F), count("attention.head_count_kv", 1)},
                                 "'gpt2.attention.head_count_kv' is 1; accepted: 2"},
                    FileSettings{"phi3_with_yarn",
                                 "phi3",
                                 {rms_epsilon, words("rope.scaling.type", "yarn")},
                                 "'phi3.rope.scaling.type' is 'yarn'; accepted: longrope",
                                 {"rope_factors_long.weight"}},
                    FileSettings{"phi3_with_one_table",
                                 "phi3",
                                 {rms_epsilon, count("rope.scaling.original_context_length", 32)},
                                 "no rope_factors_short.weight",
                                 {"rope_factors_long.weight"}},
                    FileSettings{"phi3_with_a_factor_and_no_tables",
                                 "phi3",
                                 {rms_epsilon, real("rope.scaling.attn_factor", 2)},
                                 "'phi3.rope.scaling.attn_factor' is 2"},
                    FileSettings{"olmo3",
                                 "olmo2",
                                 {rms_epsilon, count("attention.sliding_window", 8)},
                                 "'olmo2.attention.sliding_window' is 8; accepted: 0"},
                    FileSettings{"granite_without_positions",
                                 "granite",
                                 {rms_epsilon, real("logit_scale", 1), flag("rope.scaling.finetuned", false)},
                                 "'granite.rope.scaling.finetuned' is false; accepted: true"},
                    FileSettings{"granite_without_a_divisor", "granite", {rms_epsilon}, "no granite.logit_scale"},
                    FileSettings{"granite_of_experts",
                                 "granite",
                                 {rms_epsilon, real("logit_scale", 1), count("expert_count", 8)},
                                 "'granite.expert_count' is 8"},
                    FileSettings{"smollm3_with_parts_of_heads",
                                 "smollm3",
                                 {rms_epsilon, count("rope.dimension_count", 2)},
                                 "'smollm3.rope.dimension_count' is 2; accepted: 4"},
                    FileSettings{"gemma2_with_positions_of_windows",
                                 "gemma2",
                                 {rms_epsilon, real("rope.freq_base_swa", 5)},
                                 "'gemma2.rope.freq_base_swa' is not supported"}),
    [](const auto& info) { return std::string(info.param.name); });

struct TensorName {
  std::string_view architecture, stored, name;
};

TEST(GgufNames, AreThoseOfTransformers) {
  const std::vector<TensorName> names{
      {"gpt2", "token_embd.weight", "wte.weight"},
      {"gpt2", "position_embd.weight", "wpe.weight"},
      {"gpt2", "output_norm.bias", "ln_f.bias"},
      {"gpt2", "blk.11.attn_qkv.bias", "h.11.attn.c_attn.bias"},
      {"gpt2", "blk.0.ffn_down.weight", "h.0.mlp.c_proj.weight"},
      {"phi3", "blk.0.attn_qkv.weight", "model.layers.0.self_attn.qkv_proj.weight"},
      {"phi3", "blk.0.ffn_up.weight", "model.layers.0.mlp.gate_up_proj.weight"},
      {"gemma2", "blk.1.post_ffw_norm.weight", "model.layers.1.post_feedforward_layernorm.weight"},
      {"gemma2", "blk.1.ffn_norm.weight", "model.layers.1.pre_feedforward_layernorm.weight"},
      {"olmo2", "blk.0.post_attention_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
      {"olmo2", "blk.0.attn_q_norm.weight", "model.layers.0.self_attn.q_norm.weight"},
      {"granite", "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"},
      {"smollm3", "output.weight", "lm_head.weight"}};
  const test::TemporaryFolder folder;
  for (const TensorName& one : names) {
    const GgufFile file(folder.write("model.gguf", bytes_of(one.architecture, {}, {}, 2)));
    const Family& family = family_of(file.metadata());
    EXPECT_EQ(name_of(family, one.stored), one.name);
    EXPECT_EQ(stored_name_of(family, one.name), one.stored);
  }
}

TEST(GgufNames, OfOtherFamiliesAreNone) {
  const std::vector<TensorName> names{{"olmo2", "blk.0.attn_norm.weight", ""},
                                      {"phi3", "blk.0.attn_q.weight", ""},
                                      {"gpt2", "blk.0.ffn_gate.weight", ""},
                                      {"llama", "position_embd.weight", ""}};
  const test::TemporaryFolder folder;
  for (const TensorName& one : names) {
    const GgufFile file(folder.write("model.gguf", bytes_of(one.architecture, {}, {}, 2)));
    EXPECT_EQ(name_of(family_of(file.metadata()), one.stored), "") << one.stored;
  }
}

}  // namespace
}  // namespace gpux::importer::gguf
