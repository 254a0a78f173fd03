// What was found, copied out of the graph's constants in the forms that are computed with.
#include <cmath>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "recognizer/recognizer.h"

namespace gpux_encoder {
namespace {

const float* floats(const Constant& constant) {
  return static_cast<const float*>(constant.data);
}

std::vector<float> rows_of(const FoundTable& table, std::size_t count) {
  if (table.rows == nullptr) return {};
  const std::size_t all = table.rows->count() / table.width() - table.first;
  const float* const begin = floats(*table.rows) + table.first * table.width();
  return {begin, begin + std::min(all, count) * table.width()};
}

Norm norm_of(const FoundNorm& found) {
  const std::size_t width = found.gamma->count();
  const auto copy = [width](const Constant& constant) {
    return std::vector<float>(floats(constant), floats(constant) + width);
  };
  return {copy(*found.gamma), copy(*found.beta), found.epsilon};
}

/// Some columns of a matrix as a matrix of their own; `room` keeps it.
PlainWeights plain(const FoundLinear& found, std::deque<std::vector<float>>& room) {
  const std::size_t inner = found.inner();
  const float* const all = floats(*found.weights);
  if (found.transposed) return {all + found.first_column * inner, inner, found.columns, true};
  const auto width = static_cast<std::size_t>(found.weights->shape[1]);
  if (found.columns == width) return {all, inner, width, false};
  std::vector<float>& own = room.emplace_back();
  own.reserve(inner * found.columns);
  for (std::size_t row = 0; row < inner; ++row) {
    const float* const first = all + row * width + found.first_column;
    own.insert(own.end(), first, first + found.columns);
  }
  return {own.data(), inner, found.columns, false};
}

Linear linear_of(std::initializer_list<const FoundLinear*> parts, Precision precision) {
  std::deque<std::vector<float>> room;
  std::vector<PlainWeights> weights;
  std::vector<float> bias;
  for (const FoundLinear* part : parts) {
    weights.push_back(plain(*part, room));
    if (part->bias == nullptr) {
      bias.resize(bias.size() + part->columns);
    } else {
      const float* const first = floats(*part->bias) + part->first_bias;
      bias.insert(bias.end(), first, first + part->columns);
    }
  }
  return {precision, weights, bias};
}

// [heads, places, places], of what is a function of the places head, query and key.
std::vector<float> relative_of(const Found& found, std::size_t places) {
  std::vector<float> all(found.heads * places * places);
  for (std::size_t query = 0; query < places; ++query) {
    for (std::size_t key = 0; key < places; ++key) {
      for (std::size_t head = 0; head < found.heads; ++head) {
        const double value = evaluate(
            *found.relative, {0, static_cast<double>(head), static_cast<double>(query), static_cast<double>(key)});
        if (std::isnan(value)) throw std::out_of_range("relative positions are not known for all places");
        all[(head * places + query) * places + key] = static_cast<float>(value);
      }
    }
  }
  return all;
}

// So many places have relative positions.
std::size_t relative_places_of(const Found& found) {
  std::size_t places = 0;
  const auto is_known = [&](double query, double key) {
    return !std::isnan(evaluate(*found.relative, {0, static_cast<double>(found.heads - 1), query, key}));
  };
  while (places < found.embeddings.longest) {
    const auto next = static_cast<double>(places);
    if (!is_known(next, next) || !is_known(0, next) || !is_known(next, 0)) break;
    ++places;
  }
  return places;
}

}  // namespace

Weights weights_of(const Found& found, Precision precision) {
  const FoundEmbeddings& embeddings = found.embeddings;
  Weights weights;
  weights.hidden = embeddings.words.width();
  weights.heads = found.heads;
  weights.words = rows_of(embeddings.words, SIZE_MAX / 2);
  weights.positions = rows_of(embeddings.positions, embeddings.longest);
  weights.types = rows_of(embeddings.type_rows, embeddings.types.empty() ? 1 : SIZE_MAX / 2);
  weights.padding = embeddings.padding;
  if (found.relative != nullptr) {
    weights.relative_places = relative_places_of(found);
    weights.relative = relative_of(found, weights.relative_places);
  }
  weights.embedding_norm = norm_of(found.embedding_norm);
  weights.hidden_keys = found.mask.keys;
  weights.masked_id = found.mask.source.masked_id;
  weights.mask_from_front = found.mask.from_front;
  for (const FoundLayer& layer : found.layers) {
    const auto [query_key_value, others] = layer_precision(precision, found.layers.size() - weights.layers.size() - 1);
    weights.layers.push_back({.query_key_value = linear_of({&layer.query, &layer.key, &layer.value}, query_key_value),
                              .attention_out = linear_of({&layer.attention_out}, others),
                              .attention_norm = norm_of(layer.attention_norm),
                              .up_projection = linear_of({&layer.up_projection}, others),
                              .down_projection = linear_of({&layer.down_projection}, others),
                              .activation = layer.activation,
                              .output_norm = norm_of(layer.output_norm),
                              .score_scale = layer.score_scale});
  }
  weights.pooling = found.vectors.empty() ? Pooling::none : found.pooling;
  weights.normalize = found.normalize;
  return weights;
}

}  // namespace gpux_encoder
