#include "importer/gguf/model_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpux/error.h"
#include "onnx/text.h"

namespace gpux::importer::gguf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array llama_outside{NamePair{"token_embd", "model.embed_tokens"}, NamePair{"output_norm", "model.norm"},
                                   NamePair{"output", "lm_head"}};

constexpr std::array gpt2_outside{NamePair{"token_embd", "wte"}, NamePair{"position_embd", "wpe"},
                                  NamePair{"output_norm", "ln_f"}, NamePair{"output", "lm_head"}};

constexpr std::array llama_names{
    NamePair{"attn_norm", "input_layernorm"},    NamePair{"attn_q", "self_attn.q_proj"},
    NamePair{"attn_k", "self_attn.k_proj"},      NamePair{"attn_v", "self_attn.v_proj"},
    NamePair{"attn_output", "self_attn.o_proj"}, NamePair{"attn_q_norm", "self_attn.q_norm"},
    NamePair{"attn_k_norm", "self_attn.k_norm"}, NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},       NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"}};

constexpr std::array gemma_names{NamePair{"attn_norm", "input_layernorm"},
                                 NamePair{"attn_q", "self_attn.q_proj"},
                                 NamePair{"attn_k", "self_attn.k_proj"},
                                 NamePair{"attn_v", "self_attn.v_proj"},
                                 NamePair{"attn_output", "self_attn.o_proj"},
                                 NamePair{"attn_q_norm", "self_attn.q_norm"},
                                 NamePair{"attn_k_norm", "self_attn.k_norm"},
                                 NamePair{"post_attention_norm", "post_attention_layernorm"},
                                 NamePair{"ffn_norm", "pre_feedforward_layernorm"},
                                 NamePair{"post_ffw_norm", "post_feedforward_layernorm"},
                                 NamePair{"ffn_gate", "mlp.gate_proj"},
                                 NamePair{"ffn_up", "mlp.up_proj"},
                                 NamePair{"ffn_down", "mlp.down_proj"}};

constexpr std::array olmo2_names{NamePair{"attn_q", "self_attn.q_proj"},
                                 NamePair{"attn_k", "self_attn.k_proj"},
                                 NamePair{"attn_v", "self_attn.v_proj"},
                                 NamePair{"attn_output", "self_attn.o_proj"},
                                 NamePair{"attn_q_norm", "self_attn.q_norm"},
                                 NamePair{"attn_k_norm", "self_attn.k_norm"},
                                 NamePair{"post_attention_norm", "post_attention_layernorm"},
                                 NamePair{"post_ffw_norm", "post_feedforward_layernorm"},
                                 NamePair{"ffn_gate", "mlp.gate_proj"},
                                 NamePair{"ffn_up", "mlp.up_proj"},
                                 NamePair{"ffn_down", "mlp.down_proj"}};

// ffn_up has the rows of the gate before those of the up projection.
constexpr std::array phi3_names{
    NamePair{"attn_norm", "input_layernorm"},    NamePair{"attn_qkv", "self_attn.qkv_proj"},
    NamePair{"attn_output", "self_attn.o_proj"}, NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"ffn_up", "mlp.gate_up_proj"},      NamePair{"ffn_down", "mlp.down_proj"}};

constexpr std::array gpt2_names{NamePair{"attn_norm", "ln_1"},          NamePair{"attn_qkv", "attn.c_attn"},
                                NamePair{"attn_output", "attn.c_proj"}, NamePair{"ffn_norm", "ln_2"},
                                NamePair{"ffn_up", "mlp.c_fc"},         NamePair{"ffn_down", "mlp.c_proj"}};

constexpr std::array families{
    Family{"llama", "llama", "LlamaForCausalLM", true, llama_outside, llama_names},
    Family{"qwen2", "qwen2", "Qwen2ForCausalLM", false, llama_outside, llama_names},
    Family{"qwen3", "qwen3", "Qwen3ForCausalLM", false, llama_outside, llama_names},
    Family{"gemma2", "gemma2", "Gemma2ForCausalLM", false, llama_outside, gemma_names},
    Family{"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, llama_outside, gemma_names},
    Family{"gpt2", "gpt2", "GPT2LMHeadModel", false, gpt2_outside, gpt2_names, "h."},
    Family{"granite", "granite", "GraniteForCausalLM", true, llama_outside, llama_names},
    Family{"olmo2", "olmo2", "Olmo2ForCausalLM", false, llama_outside, olmo2_names},
    Family{"phi3", "phi3", "Phi3ForCausalLM", false, llama_outside, phi3_names},
    Family{"smollm3", "smollm3", "SmolLM3ForCausalLM", true, llama_outside, llama_names},
};

constexpr std::string_view stored_layer_prefix = "blk.";
constexpr std::array<std::string_view, 2> endings{".weight", ".bias"};

/// A name in its parts: "blk.0.attn_q.weight" is layer "0", stem "attn_q" and ending ".weight".
struct NameParts {
  std::string_view layer{}, stem{}, ending{};
};

std::optional<NameParts> parts_of(std::string_view name, std::string_view prefix) {
  NameParts parts;
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) parts.ending = ending;
  }
  if (parts.ending.empty()) return std::nullopt;
  name.remove_suffix(parts.ending.size());
  if (name.starts_with(prefix)) {
    name.remove_prefix(prefix.size());
    const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    const bool is_number = digits > 0 && (digits == 1 || name[0] != '0');
    if (!is_number || digits == name.size() || name[digits] != '.') return std::nullopt;
    parts.layer = name.substr(0, digits);
    name.remove_prefix(digits + 1);
  }
  parts.stem = name;
  return parts;
}

std::span<const NamePair> names_for(const Family& family, const NameParts& parts) {
  return parts.layer.empty() ? family.outside_names : family.layer_names;
}

// The shortest decimal that reads back as this float: 1e-06, and not 9.999999974752427e-07.
double shortest(double value) {
  const std::string text = fmt::format("{}", static_cast<float>(value));
  double result = value;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return result;
}

/// The keys that begin with the architecture's name. What is not read here may change the computation.
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(fmt::format("{}.", architecture)) {}

  std::optional<std::int64_t> count(std::string_view name) {
    const std::string key = read(name);
    const Value* value = metadata_.find(key);
    const Integers* list = value == nullptr ? nullptr : std::get_if<Integers>(value);
    if (list == nullptr) return metadata_.count(key);
    // One number for each layer.
    const bool is_uniform = !list->empty() && list->front() >= 0 &&
                            std::ranges::all_of(*list, [list](std::int64_t one) { return one == list->front(); });
    if (!is_uniform) metadata_.refuse(key, "the same number for all layers");
    return list->front();
  }

  std::int64_t require_count(std::string_view name) {
    if (const std::optional<std::int64_t> value = count(name)) return *value;
    throw Error(ErrorCode::invalid_model, fmt::format("the file has no {}{}", prefix_, name));
  }

  std::optional<double> number(std::string_view name) {
    const std::optional<double> value = metadata_.number(read(name));
    if (value && !std::isfinite(*value)) refuse(name, "a finite number");
    return value ? std::optional(shortest(*value)) : std::nullopt;
  }

  double require_number(std::string_view name) {
    if (const std::optional<double> value = number(name)) return *value;
    throw Error(ErrorCode::invalid_model, fmt::format("the file has no {}{}", prefix_, name));
  }

  std::optional<bool> flag(std::string_view name) { return metadata_.flag(read(name)); }

  std::string text(std::string_view name) { return std::string(metadata_.text(read(name)).value_or("")); }

  const std::vector<bool>* flags(std::string_view name) {
    const std::string key = read(name);
    const Value* value = metadata_.find(key);
    return value == nullptr || !std::holds_alternative<std::vector<bool>>(*value) ? nullptr : metadata_.flags(key);
  }

  /// A key that is known to be about something else than the computation.
  void ignore(std::string_view name) { (void)read(name); }

  /// Refuses every number but 0.
  void require_zero(std::string_view name) {
    if (count(name).value_or(0) != 0) refuse(name, "0");
  }

  [[noreturn]] void refuse(std::string_view name, std::string_view accepted) const {
    metadata_.refuse(prefix_ + std::string(name), accepted);
  }

  void refuse_unread() const {
    for (auto i = metadata_.all().lower_bound(prefix_); i != metadata_.all().end(); ++i) {
      if (!i->first.starts_with(prefix_)) return;
      if (!read_.contains(i->first)) {
        throw Error(ErrorCode::invalid_model,
                    fmt::format("{} is not supported: it may change what the model computes", onnx::quote(i->first)));
      }
    }
  }

 private:
  std::string read(std::string_view name) { return *read_.insert(prefix_ + std::string(name)).first; }

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

/// Sizes that every family has.
struct Sizes {
  std::int64_t layers = 0, heads = 0, kv_heads = 0, hidden = 0, head_size = 0;
};

Sizes write_sizes(ArchitectureKeys& keys, const GgufFile& file, Json& config) {
  Sizes sizes{.layers = keys.require_count("block_count"),
              .heads = keys.require_count("attention.head_count"),
              .hidden = keys.require_count("embedding_length")};
  sizes.kv_heads = keys.count("attention.head_count_kv").value_or(sizes.heads);
  if (sizes.heads == 0) keys.refuse("attention.head_count", "1 or more");
  sizes.head_size = keys.count("attention.key_length").value_or(sizes.hidden / sizes.heads);
  if (keys.count("attention.value_length").value_or(sizes.head_size) != sizes.head_size) {
    keys.refuse("attention.value_length", fmt::format("{}, as attention.key_length", sizes.head_size));
  }
  const StoredTensor* words = file.find("token_embd.weight");
  if (words == nullptr || words->shape.size() != 2) {
    throw Error(ErrorCode::invalid_model,
                "the file has no token_embd.weight of two dimensions: it holds no text model");
  }
  config["vocab_size"] = words->shape.front();
  config["hidden_size"] = sizes.hidden;
  config["num_hidden_layers"] = sizes.layers;
  config["num_attention_heads"] = sizes.heads;
  config["num_key_value_heads"] = sizes.kv_heads;
  config["head_dim"] = sizes.head_size;
  config["intermediate_size"] = keys.require_count("feed_forward_length");
  config["max_position_embeddings"] = keys.require_count("context_length");
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  return sizes;
}

// As float32, which the reader multiplies with the size of a head: not below the number of elements.
double part_of_head(std::int64_t rotated, std::int64_t head_size) {
  const float part = static_cast<float>(rotated) / static_cast<float>(head_size);
  return part * static_cast<float>(head_size) < static_cast<float>(rotated) ? std::nextafter(part, 1.0F) : part;
}

void write_base_frequencies(ArchitectureKeys& keys, const Sizes& sizes, Json& config) {
  constexpr double default_theta = 10000;
  config["rope_theta"] = keys.number("rope.freq_base").value_or(default_theta);
  const std::int64_t rotated = keys.count("rope.dimension_count").value_or(sizes.head_size);
  if (rotated == sizes.head_size) return;
  if (rotated == 0 || sizes.head_size == 0) keys.refuse("rope.dimension_count", "1 or more");
  config["partial_rotary_factor"] = part_of_head(rotated, sizes.head_size);
}

// llama.cpp takes a factor without a type as a linear one.
void write_rotary(ArchitectureKeys& keys, const Sizes& sizes, Json& config) {
  write_base_frequencies(keys, sizes, config);
  const std::string type = keys.text("rope.scaling.type");
  const double old_factor = keys.number("rope.scale_linear").value_or(0);
  const double factor = keys.number("rope.scaling.factor").value_or(old_factor);
  const std::optional<std::int64_t> original = keys.count("rope.scaling.original_context_length");
  keys.ignore("rope.scaling.finetuned");
  const auto require_one = [&](std::string_view name) {
    if (keys.number(name).value_or(1) != 1) keys.refuse(name, "1");
  };
  require_one("rope.scaling.yarn_ext_factor");
  require_one("rope.scaling.yarn_attn_factor");
  require_one("rope.scaling.attn_factor");
  const std::optional<double> fast = keys.number("rope.scaling.yarn_beta_fast");
  const std::optional<double> slow = keys.number("rope.scaling.yarn_beta_slow");
  if (type == "none" || factor == 0 || factor == 1) {
    if (!type.empty() && type != "none" && type != "linear" && type != "yarn") {
      keys.refuse("rope.scaling.type", "none, linear, yarn");
    }
    return;
  }
  Json scaling;
  if (type.empty() || type == "linear") {
    scaling = {{"rope_type", "linear"}, {"factor", factor}};
  } else if (type == "yarn") {
    scaling = {{"rope_type", "yarn"},
               {"factor", factor},
               {"original_max_position_embeddings", original.value_or(config["max_position_embeddings"])}};
    if (fast) scaling["beta_fast"] = *fast;
    if (slow) scaling["beta_slow"] = *slow;
  } else {
    keys.refuse("rope.scaling.type", "none, linear, yarn");
  }
  config["rope_scaling"] = std::move(scaling);
}

void require_whole_heads(ArchitectureKeys& keys, const Sizes& sizes) {
  if (keys.count("rope.dimension_count").value_or(sizes.head_size) == sizes.head_size) return;
  keys.refuse("rope.dimension_count", fmt::format("{}, the size of a head", sizes.head_size));
}

// SiLU, RMS norms, rotary positions for whole heads, and biases where the file has them.
void write_llama(ArchitectureKeys& keys, const GgufFile& file, const Sizes& sizes, Json& config) {
  config["hidden_act"] = "silu";
  config["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  config["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  config["rms_norm_eps"] = keys.require_number("attention.layer_norm_rms_epsilon");
  write_rotary(keys, sizes, config);
  require_whole_heads(keys, sizes);
}

// A factor that is absent or 0 is none, as in llama.cpp.
void write_granite(ArchitectureKeys& keys, const GgufFile& file, const Sizes& sizes, Json& config) {
  write_llama(keys, file, sizes, config);
  const auto factor = [&](std::string_view name, double otherwise) {
    const double value = keys.number(name).value_or(0);
    return value == 0 ? otherwise : value;
  };
  config["embedding_multiplier"] = factor("embedding_scale", 1);
  config["residual_multiplier"] = factor("residual_scale", 1);
  config["attention_multiplier"] = factor("attention.scale", 1 / std::sqrt(static_cast<double>(sizes.head_size)));
  config["logits_scaling"] = keys.require_number("logit_scale");
  // Granite's models without rotary positions.
  if (!keys.flag("rope.scaling.finetuned").value_or(true)) keys.refuse("rope.scaling.finetuned", "true");
}

void write_olmo2(ArchitectureKeys& keys, const GgufFile& file, const Sizes& sizes, Json& config) {
  write_llama(keys, file, sizes, config);
  keys.require_zero("attention.sliding_window");  // OLMo 3
}

// llama.cpp leaves every fourth layer without rotary positions, and the file does not say so.
void write_smollm3(ArchitectureKeys& keys, const GgufFile& file, const Sizes& sizes, Json& config) {
  write_llama(keys, file, sizes, config);
  config["no_rope_layer_interval"] = 4;
}

void write_gpt2(ArchitectureKeys& keys, const GgufFile&, const Sizes& sizes, Json& config) {
  if (sizes.kv_heads != sizes.heads) keys.refuse("attention.head_count_kv", fmt::format("{}", sizes.heads));
  config["activation_function"] = "gelu_new";
  config["n_inner"] = config["intermediate_size"];
  config["layer_norm_epsilon"] = keys.require_number("attention.layer_norm_epsilon");
}

Json rotary_factors(const GgufFile& file, std::string_view name) {
  const StoredTensor* factors = file.find(name);
  if (factors == nullptr) throw Error(ErrorCode::invalid_model, fmt::format("the file has no {}", name));
  Json list = Json::array();
  for (const float factor : GgufFile::elements(*factors, 0, factors->rows())) list.push_back(factor);
  return list;
}

void write_phi3(ArchitectureKeys& keys, const GgufFile& file, const Sizes& sizes, Json& config) {
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = keys.require_number("attention.layer_norm_rms_epsilon");
  // llama.cpp does not apply the window; transformers, whose model this is, does.
  const std::int64_t window = keys.count("attention.sliding_window").value_or(0);
  config["sliding_window"] = window > 0 ? Json(window) : Json();
  constexpr std::string_view long_factors = "rope_factors_long.weight", short_factors = "rope_factors_short.weight";
  if (file.find(long_factors) == nullptr && file.find(short_factors) == nullptr) {
    return write_rotary(keys, sizes, config);
  }
  write_base_frequencies(keys, sizes, config);
  const std::string type = keys.text("rope.scaling.type");
  if (!type.empty() && type != "longrope") keys.refuse("rope.scaling.type", "longrope");
  keys.ignore("rope.scaling.finetuned");
  config["original_max_position_embeddings"] = keys.require_count("rope.scaling.original_context_length");
  config["rope_scaling"] = {{"rope_type", "longrope"},
                            {"attention_factor", keys.number("rope.scaling.attn_factor").value_or(1)},
                            {"long_factor", rotary_factors(file, long_factors)},
                            {"short_factor", rotary_factors(file, short_factors)}};
}

void write_qwen(ArchitectureKeys& keys, const GgufFile&, const Sizes& sizes, Json& config) {
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = keys.require_number("attention.layer_norm_rms_epsilon");
  write_rotary(keys, sizes, config);
}

// The attention's scale is not in the file: llama.cpp knows the model by its number of layers.
std::int64_t query_scalar(const Sizes& sizes, std::int64_t layers_of_27b) {
  return sizes.layers == layers_of_27b ? sizes.hidden / sizes.heads : sizes.head_size;
}

// Each layer of `period` has a window, but the last one; or as the file's list says.
void write_windows(ArchitectureKeys& keys, const Sizes& sizes, std::int64_t window, std::int64_t default_period,
                   Json& config) {
  const std::vector<bool>* sliding = keys.flags("attention.sliding_window_pattern");
  const std::int64_t period =
      sliding == nullptr ? keys.count("attention.sliding_window_pattern").value_or(default_period) : 0;
  config["sliding_window"] = window > 0 ? Json(window) : Json();
  Json types = Json::array();
  for (std::int64_t i = 0; i < std::min<std::int64_t>(sizes.layers, 1024); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_sliding = window > 0 && (sliding != nullptr ? at < sliding->size() && sliding->at(at)
                                                              : period == 0 || i % period < period - 1);
    types.push_back(is_sliding ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
}

void write_gemma2(ArchitectureKeys& keys, const GgufFile&, const Sizes& sizes, Json& config) {
  constexpr std::int64_t layers_of_27b = 46, pattern = 2, default_window = 4096;
  constexpr double default_score_cap = 50, default_logit_cap = 30;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["rms_norm_eps"] = keys.require_number("attention.layer_norm_rms_epsilon");
  write_rotary(keys, sizes, config);
  require_whole_heads(keys, sizes);
  config["query_pre_attn_scalar"] = query_scalar(sizes, layers_of_27b);
  config["attn_logit_softcapping"] = keys.number("attn_logit_softcapping").value_or(default_score_cap);
  config["final_logit_softcapping"] = keys.number("final_logit_softcapping").value_or(default_logit_cap);
  write_windows(keys, sizes, keys.count("attention.sliding_window").value_or(default_window), pattern, config);
}

void write_gemma3(ArchitectureKeys& keys, const GgufFile&, const Sizes& sizes, Json& config) {
  constexpr std::int64_t layers_of_27b = 62, pattern = 6;
  constexpr double default_theta = 10000;
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["rms_norm_eps"] = keys.require_number("attention.layer_norm_rms_epsilon");
  write_rotary(keys, sizes, config);
  config["rope_local_base_freq"] = keys.number("rope.freq_base_swa").value_or(default_theta);
  config["query_pre_attn_scalar"] = query_scalar(sizes, layers_of_27b);
  if (keys.number("final_logit_softcapping").value_or(0) != 0) keys.refuse("final_logit_softcapping", "0");
  write_windows(keys, sizes, keys.count("attention.sliding_window").value_or(0), pattern, config);
}

using WriteSettings = void (*)(ArchitectureKeys&, const GgufFile&, const Sizes&, Json&);

constexpr std::array<std::pair<std::string_view, WriteSettings>, 10> writers{{{"llama", write_llama},
                                                                              {"qwen2", write_qwen},
                                                                              {"qwen3", write_qwen},
                                                                              {"gemma2", write_gemma2},
                                                                              {"gemma3", write_gemma3},
                                                                              {"gpt2", write_gpt2},
                                                                              {"granite", write_granite},
                                                                              {"olmo2", write_olmo2},
                                                                              {"phi3", write_phi3},
                                                                              {"smollm3", write_smollm3}}};
static_assert(writers.size() == families.size());

WriteSettings writer_of(const Family& family) {
  for (const auto& [architecture, writer] : writers) {
    if (architecture == family.architecture) return writer;
  }
  throw Error(ErrorCode::internal, fmt::format("{} has no settings", family.architecture));
}

}  // namespace

const Family& family_of(const Metadata& metadata) {
  const std::string_view architecture = metadata.text("general.architecture").value_or("");
  const auto* found = std::ranges::find(families, architecture, &Family::architecture);
  if (found != families.end()) return *found;
  std::vector<std::string_view> names;
  for (const Family& family : families) names.push_back(family.architecture);
  throw Error(ErrorCode::invalid_model, fmt::format("general.architecture is {}; accepted: {}",
                                                    onnx::quote(architecture), fmt::join(names, ", ")));
}

std::string name_of(const Family& family, std::string_view stored) {
  const std::optional<NameParts> parts = parts_of(stored, stored_layer_prefix);
  if (!parts) return {};
  for (const NamePair& pair : names_for(family, *parts)) {
    if (pair.stored != parts->stem) continue;
    if (parts->layer.empty()) return fmt::format("{}{}", pair.name, parts->ending);
    return fmt::format("{}{}.{}{}", family.layer_prefix, parts->layer, pair.name, parts->ending);
  }
  return {};
}

std::string stored_name_of(const Family& family, std::string_view name) {
  const std::optional<NameParts> parts = parts_of(name, family.layer_prefix);
  if (!parts) return std::string(name);
  for (const NamePair& pair : names_for(family, *parts)) {
    if (pair.name != parts->stem) continue;
    if (parts->layer.empty()) return fmt::format("{}{}", pair.stored, parts->ending);
    return fmt::format("{}{}.{}{}", stored_layer_prefix, parts->layer, pair.stored, parts->ending);
  }
  return std::string(name);
}

Json config_of(const GgufFile& file) {
  const Metadata& metadata = file.metadata();
  const Family& family = family_of(metadata);
  ArchitectureKeys keys(metadata, family.architecture);
  Json config{{"architectures", Json::array({family.class_name})}, {"model_type", family.model_type}};
  const Sizes sizes = write_sizes(keys, file, config);
  writer_of(family)(keys, file, sizes, config);
  if (!keys.flag("attention.causal").value_or(true)) keys.refuse("attention.causal", "true");
  for (const char* name : {"expert_count", "expert_used_count", "pooling_type", "nextn_predict_layers"}) {
    keys.require_zero(name);
  }
  for (const char* name : {"vocab_size", "tensor_data_layout"}) keys.ignore(name);
  keys.refuse_unread();
  return config;
}

}  // namespace gpux::importer::gguf
