#include "embedding/pooling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::embedding {
namespace {

using gpux::Pooling;

// Sums are kept in double: a mean of a long text would else lose digits that the model gave.
struct WeightedSum {
  std::vector<double> elements;
  double weights = 0;
};

template <typename Weight>
WeightedSum weighted_sum(std::span<const float> hidden, std::span<const std::uint8_t> mask, const Weight& weight) {
  const std::size_t width = hidden.size() / mask.size();
  WeightedSum sum{std::vector<double>(width), 0};
  for (std::size_t token = 0; token < mask.size(); ++token) {
    if (mask[token] == 0) continue;
    const double factor = weight(token);
    sum.weights += factor;
    for (std::size_t i = 0; i < width; ++i) sum.elements[i] += factor * double{hidden[token * width + i]};
  }
  return sum;
}

void append_divided(const WeightedSum& sum, double divisor, std::vector<float>& vector) {
  for (const double element : sum.elements) vector.push_back(static_cast<float>(element / divisor));
}

double each_once(std::size_t /*token*/) noexcept {
  return 1;
}

void append_max(std::span<const float> hidden, std::span<const std::uint8_t> mask, std::vector<float>& vector) {
  const std::size_t width = hidden.size() / mask.size();
  std::vector<float> largest(width, -std::numeric_limits<float>::infinity());
  for (std::size_t token = 0; token < mask.size(); ++token) {
    if (mask[token] == 0) continue;
    for (std::size_t i = 0; i < width; ++i) largest[i] = std::max(largest[i], hidden[token * width + i]);
  }
  vector.insert(vector.end(), largest.begin(), largest.end());
}

void append_row(std::span<const float> hidden, std::size_t width, std::size_t row, std::vector<float>& vector) {
  const auto elements = hidden.subspan(row * width, width);
  vector.insert(vector.end(), elements.begin(), elements.end());
}

}  // namespace

void append_pooled(Pooling pooling, std::span<const float> hidden, std::span<const std::uint8_t> mask,
                   std::vector<float>& vector) {
  constexpr double least_weight = 1e-9;
  const std::size_t width = hidden.size() / mask.size();
  switch (pooling) {
    case Pooling::cls: {
      const auto first = static_cast<std::size_t>(std::find(mask.begin(), mask.end(), 1) - mask.begin());
      return append_row(hidden, width, first == mask.size() ? 0 : first, vector);
    }
    case Pooling::max:
      return append_max(hidden, mask, vector);
    case Pooling::mean: {
      const WeightedSum sum = weighted_sum(hidden, mask, each_once);
      return append_divided(sum, std::max(sum.weights, least_weight), vector);
    }
    case Pooling::mean_sqrt_length: {
      const WeightedSum sum = weighted_sum(hidden, mask, each_once);
      return append_divided(sum, std::sqrt(std::max(sum.weights, least_weight)), vector);
    }
    case Pooling::weighted_mean: {
      const WeightedSum sum =
          weighted_sum(hidden, mask, [](std::size_t token) { return static_cast<double>(token + 1); });
      return append_divided(sum, std::max(sum.weights, least_weight), vector);
    }
    case Pooling::last_token: {
      const auto behind = static_cast<std::size_t>(mask.rend() - std::find(mask.rbegin(), mask.rend(), 1));
      if (behind == 0) return vector.resize(vector.size() + width);
      return append_row(hidden, width, behind - 1, vector);
    }
  }
}

void normalize(std::span<float> vector) noexcept {
  constexpr double least_length = 1e-12;
  double squares = 0;
  for (const float element : vector) squares += double{element} * double{element};
  const double length = std::max(std::sqrt(squares), least_length);
  for (float& element : vector) element = static_cast<float>(double{element} / length);
}

std::size_t kept_dimensions(std::size_t whole, const VectorSettings& settings) noexcept {
  return settings.truncate_dim == 0 ? whole : std::min(whole, settings.truncate_dim);
}

bool has_unit_length(std::size_t whole, std::size_t dimensions, std::optional<bool> is_normalized,
                     const VectorSettings& settings) noexcept {
  if (is_normalized) return *is_normalized;
  // Models that can be cut are trained on normalised parts; the graph may have normalised the whole, which says
  // nothing.
  if (dimensions != 0) return settings.normalizes || dimensions < whole;
  return settings.normalizes && kept_dimensions(whole, settings) == whole;
}

void finish_vector(std::vector<float>& vector, std::size_t dimensions, std::optional<bool> is_normalized,
                   const VectorSettings& settings) {
  const std::size_t kept = kept_dimensions(vector.size(), settings);
  if (dimensions == 0 && kept < vector.size()) {
    if (is_normalized.value_or(settings.normalizes)) normalize(vector);
    vector.resize(kept);
    if (is_normalized.value_or(false)) normalize(vector);
    return;
  }
  const bool normalizes = has_unit_length(vector.size(), dimensions, is_normalized, settings);
  if (dimensions != 0 && dimensions < vector.size()) vector.resize(dimensions);
  if (normalizes) normalize(vector);
}

}  // namespace gpux::embedding
