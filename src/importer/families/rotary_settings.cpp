#include "importer/families/rotary_settings.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace gpux::importer {
namespace {

void divide(Rotary& rotary, float factor) {
  for (float& frequency : rotary.frequencies) frequency /= factor;
}

// Low frequencies are divided by the factor, high ones stay, those between are interpolated.
void scale_llama3(Rotary& rotary, const checkpoint::ConfigReader& scaling) {
  const float factor = scaling.positive({"factor"});
  const float low = scaling.positive({"low_freq_factor"}), high = scaling.positive({"high_freq_factor"});
  const auto original = static_cast<float>(scaling.number({"original_max_position_embeddings"}));
  for (float& frequency : rotary.frequencies) {
    const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
    if (wavelength < original / high) continue;
    if (wavelength > original / low) {
      frequency /= factor;
      continue;
    }
    const float smooth = (original / wavelength - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
}

void scale_yarn(Rotary& rotary, const checkpoint::ConfigReader& scaling, float theta, std::int64_t dimensions) {
  const double factor = scaling.positive({"factor"});
  const auto original = static_cast<double>(scaling.number({"original_max_position_embeddings"}));
  const double fast = scaling.positive({"beta_fast"}, 32.0F), slow = scaling.positive({"beta_slow"}, 1.0F);
  const auto size = static_cast<double>(dimensions);
  const auto dimension_of = [&](double rotations) {
    return size * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(static_cast<double>(theta)));
  };
  const bool truncates = scaling.flag({"truncate"}, true);
  double low = dimension_of(fast), high = dimension_of(slow);
  if (truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  constexpr double least_width = 0.001;
  if (low == high) high += least_width;
  for (std::size_t i = 0; i < rotary.frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double frequency = rotary.frequencies[i];
    rotary.frequencies[i] = static_cast<float>(frequency / factor * ramp + frequency * (1 - ramp));
  }
  const auto attention = [&](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1; };
  if (scaling.find({"attention_factor"}) != nullptr) {
    rotary.attention_factor = scaling.positive({"attention_factor"});
  } else if (scaling.find({"mscale"}) != nullptr && scaling.find({"mscale_all_dim"}) != nullptr) {
    const double scale = attention(scaling.positive({"mscale"})) / attention(scaling.positive({"mscale_all_dim"}));
    rotary.attention_factor = static_cast<float>(scale);
  } else {
    rotary.attention_factor = static_cast<float>(attention(1));
  }
}

std::optional<checkpoint::ConfigReader> scaling_of(const checkpoint::ConfigReader& config,
                                                   const RotaryDefaults& defaults) {
  std::optional<checkpoint::ConfigReader> parameters = config.object("rope_parameters");
  if (parameters && defaults.layer_type != nullptr) return parameters->object(defaults.layer_type);
  if (parameters || !defaults.scales) return parameters;
  return config.object("rope_scaling");
}

std::int64_t rotated_dimensions(const checkpoint::ConfigReader& config, std::int64_t head_size, float part) {
  const auto dimensions = static_cast<std::int64_t>(static_cast<float>(head_size) * part);
  if (dimensions < 2 || dimensions % 2 != 0 || dimensions > head_size) {
    config.refuse("partial_rotary_factor", part, "a part of the head size that is an even number");
  }
  return dimensions;
}

// One positive number for each frequency.
std::vector<float> factors_of(const checkpoint::ConfigReader& scaling, const char* name, std::size_t count) {
  const checkpoint::ConfigReader::Json* found = scaling.find({name});
  const checkpoint::ConfigReader::Json listed = found == nullptr ? checkpoint::ConfigReader::Json() : *found;
  const std::string accepted = fmt::format("a list of {} numbers above 0", count);
  if (!listed.is_array() || listed.size() != count) scaling.refuse(name, listed, accepted);
  std::vector<float> factors;
  for (const checkpoint::ConfigReader::Json& one : listed) {
    if (!one.is_number() || !(one.get<float>() > 0) || !std::isfinite(one.get<float>())) {
      scaling.refuse(name, one, accepted);
    }
    factors.push_back(one.get<float>());
  }
  return factors;
}

}  // namespace

Rotary plain_rotary(float theta, std::int64_t dimensions) {
  Rotary rotary;
  // In float32, as transformers does it.
  for (std::int64_t i = 0; i < dimensions; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dimensions);
    rotary.frequencies.push_back(1 / std::pow(theta, exponent));
  }
  return rotary;
}

Rotary read_rotary(const checkpoint::ConfigReader& config, const RotaryDefaults& defaults) {
  const std::optional<checkpoint::ConfigReader> scaling = scaling_of(config, defaults);
  float theta = defaults.theta;
  float part = config.positive({"partial_rotary_factor"}, 1.0F);
  std::string type = "default";
  if (scaling) {
    theta = scaling->positive({"rope_theta"}, theta);
    part = scaling->positive({"partial_rotary_factor"}, part);
    type = scaling->text({"rope_type", "type"}, "default");
  }
  const std::int64_t dimensions = rotated_dimensions(config, defaults.head_size, part);
  Rotary rotary = plain_rotary(theta, dimensions);
  if (!scaling || type == "default" || type == "dynamic") return rotary;
  if (type == "linear") {
    divide(rotary, scaling->positive({"factor"}));
  } else if (type == "llama3") {
    scale_llama3(rotary, *scaling);
  } else if (type == "yarn") {
    scale_yarn(rotary, *scaling, theta, dimensions);
  } else if (type == "ntk") {
    if (const auto* mixed = scaling->find({"mixed_b"})) scaling->refuse("mixed_b", *mixed, "null");
    const float factor = scaling->positive({"factor"});
    rotary = plain_rotary(theta * factor, dimensions);
    divide(rotary, std::pow(factor, 2 / static_cast<float>(dimensions)));
  } else {
    scaling->refuse("rope_type", type, "default, linear, dynamic, llama3, yarn, ntk");
  }
  return rotary;
}

std::optional<LongRotary> read_long_rotary(const checkpoint::ConfigReader& config, const RotaryDefaults& defaults) {
  const std::optional<checkpoint::ConfigReader> scaling = scaling_of(config, defaults);
  if (!scaling) return std::nullopt;
  const std::string type = scaling->text({"rope_type", "type"}, "default");
  if (type != "longrope" && type != "su" && type != "yarn") return std::nullopt;
  for (const char* name : {"short_mscale", "long_mscale"}) {
    if (const auto* value = scaling->find({name})) scaling->refuse(name, *value, "null");
  }
  const float theta = scaling->positive({"rope_theta"}, defaults.theta);
  const float part = scaling->positive({"partial_rotary_factor"}, config.positive({"partial_rotary_factor"}, 1.0F));
  const Rotary plain = plain_rotary(theta, rotated_dimensions(config, defaults.head_size, part));
  const checkpoint::ConfigReader& source =
      config.find({"original_max_position_embeddings"}) != nullptr ? config : *scaling;
  LongRotary rotary{.short_texts = plain, .long_texts = plain};
  rotary.original_positions = source.number({"original_max_position_embeddings"}, defaults.max_positions);
  const auto original = static_cast<double>(rotary.original_positions);
  if (rotary.original_positions < 2) config.refuse("original_max_position_embeddings", original, "a number from 2 on");
  const double stretch = static_cast<double>(defaults.max_positions) / original;
  const double factor = scaling->find({"factor"}) != nullptr ? scaling->positive({"factor"}) : stretch;
  const double recommended = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  const float attention = scaling->positive({"attention_factor"}, static_cast<float>(recommended));
  const auto divide_each = [&](Rotary& table, const char* name) {
    const std::vector<float> factors = factors_of(*scaling, name, table.frequencies.size());
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * factors.size());
      table.frequencies[i] = 1 / (factors[i] * std::pow(theta, exponent));
    }
    table.attention_factor = attention;
  };
  divide_each(rotary.short_texts, "short_factor");
  divide_each(rotary.long_texts, "long_factor");
  return rotary;
}

}  // namespace gpux::importer
