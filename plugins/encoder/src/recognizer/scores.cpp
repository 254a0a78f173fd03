// Attention scores as sums of products of queries and keys, masks and biases.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"
#include "recognizer/relative_positions.h"

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t text_axis = 0, head_axis = 1, query_axis = 2, key_axis = 3;
constexpr std::size_t max_relative_position = std::size_t{1} << 15;

bool are_near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

class ScoreReader {
 public:
  explicit ScoreReader(const KnownFacts& facts) : facts_(facts) {}

  /// An error message, or an empty string.
  std::string read(const Expression& expression, double factor) {
    if (expression.kind == Expression::Kind::computed) return read_product(expression, factor);
    if (expression.kind != Expression::Kind::apply) return "softmaxes something else than queries times keys";
    const auto refers = [&](std::size_t i) {
      return contains(*expression.arguments[i],
                      [](const Expression& one) { return one.kind == Expression::Kind::computed; });
    };
    switch (expression.operation) {
      case Operation::cast:
        return read(*expression.arguments[0], factor);
      case Operation::multiply:
      case Operation::divide: {
        const std::size_t scores = refers(0) ? 0 : 1;
        const auto by = literal_value(expression.arguments[1 - scores]);
        const bool divides = expression.is(Operation::divide);
        if (!by || *by == 0 || !std::isfinite(*by) || (divides && scores != 0))
          return "scales scores by an unknown factor";
        return read(*expression.arguments[scores], divides ? factor / *by : factor * *by);
      }
      case Operation::add:
      case Operation::subtract: {
        for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
          const bool is_negative = side == 1 && expression.is(Operation::subtract);
          if (refers(side)) {
            if (std::string wrong = read(*expression.arguments[side], is_negative ? -factor : factor); !wrong.empty())
              return wrong;
          } else {
            add(expression.arguments[side], is_negative ? -factor : factor);
          }
        }
        return {};
      }
      case Operation::where: {
        const std::size_t scores = refers(1) ? 1 : 2;
        const auto otherwise = literal_value(expression.arguments[3 - scores]);
        if (refers(0) || !refers(scores)) return "selects scores by something unknown";
        if (!otherwise) return "replaces scores by something unknown";
        if (std::string wrong = read(*expression.arguments[scores], factor); !wrong.empty()) return wrong;
        replacements_.push_back({expression.arguments[0], scores == 1, *otherwise * factor});
        return {};
      }
      default:
        return "softmaxes something else than queries times keys";
    }
  }

  std::optional<AttentionScores> finish(std::string& why) {
    if (!product_) {
      why = "softmaxes something else than queries times keys";
      return std::nullopt;
    }
    AttentionScores scores;
    scores.query = product_->query;
    scores.key = product_->key;
    scores.num_heads = product_->num_heads;
    scores.scale = scale_ * scores.query.scale * scores.key.scale;
    why = read_relative(scores);
    for (std::size_t i = 0; i < added_.size() && why.empty(); ++i) why = add_to_scores(scores, added_[i], facts_);
    for (std::size_t i = 0; i < replacements_.size() && why.empty(); ++i) {
      const Replacement& one = replacements_[i];
      why = replace_scores(scores, one.condition, one.attended_if_true, one.otherwise, facts_);
    }
    if (!why.empty()) return std::nullopt;
    return scores;
  }

 private:
  struct Replacement {
    ExpressionPointer condition;
    bool attended_if_true = true;
    double otherwise = 0;
  };

  struct RelativeTerm {
    const RelativeScores* scores = nullptr;
    bool of_query = true;
    ExpressionPointer bucket;
    double scale = 1;
  };

  std::string read_product(const Expression& leaf, double factor) {
    const auto is_head = [&](std::size_t num_heads) {
      return is_axis_index(leaf.arguments[1], head_axis) || (num_heads == 1 && literal_value(leaf.arguments[1]) == 0.0);
    };
    const bool is_text = facts_.is_text(leaf.arguments[0], text_axis);
    if (const auto* scores = facts_.as<Scores>(leaf.computed)) {
      if (product_ != nullptr) return "adds two products of queries and keys";
      if (!is_text || !is_head(scores->num_heads) || !facts_.is_token(leaf.arguments[2], query_axis) ||
          !facts_.is_token(leaf.arguments[3], key_axis)) {
        return "is over scores of another axis order";
      }
      product_ = scores;
      scale_ = factor;
      return {};
    }
    const auto* relative = facts_.as<RelativeScores>(leaf.computed);
    if (relative == nullptr) return "softmaxes something else than queries times keys";
    const bool of_query = is_axis_index(leaf.arguments[2], query_axis);
    if (!is_text || !is_head(relative->num_heads) || (!of_query && !is_axis_index(leaf.arguments[2], key_axis)))
      return "is over relative scores of another axis order";
    relative_.push_back({relative, of_query, leaf.arguments[3], factor * relative->vectors.scale});
    return {};
  }

  void add(const ExpressionPointer& term, double factor) {
    added_.push_back(
        factor == 1 ? term
                    : apply(Operation::multiply, ElementType::float32, {term, literal(factor, ElementType::float32)}));
  }

  // Queries and keys times tables: of the same vectors, with one scale and one bucket for each distance.
  std::string read_relative(AttentionScores& scores) const {
    if (relative_.empty()) return {};
    RecognizedDisentangled found;
    const auto are_same = [](const HeadVectors& a, const HeadVectors& b) {
      return a.projection == b.projection && a.num_heads == b.num_heads && a.norm == b.norm && a.rotary == b.rotary;
    };
    for (const RelativeTerm& term : relative_) {
      const HeadVectors& vectors = term.of_query ? scores.query : scores.key;
      ExpressionPointer& table = term.of_query ? found.relative_keys : found.relative_queries;
      if (table != nullptr || !are_same(term.scores->vectors, vectors) || vectors.norm || vectors.rotary ||
          !are_near(term.scale, scores.scale)) {
        return "adds relative scores of other queries, keys or scales";
      }
      table = term.scores->table;
      if (found.bucket == nullptr) {
        found.bucket = term.bucket;
        found.buckets = term.scores->buckets;
      }
      if (!depends_on_difference(*term.bucket)) return "has buckets that depend on more than the distance";
      const std::vector<double>& buckets = facts_.values_by_difference(term.bucket, max_relative_position);
      const auto is_bucket = [&](double bucket) {
        return bucket >= 0 && bucket < static_cast<double>(term.scores->buckets) && bucket == std::trunc(bucket);
      };
      if (!std::ranges::all_of(buckets, is_bucket) ||
          buckets != facts_.values_by_difference(found.bucket, max_relative_position)) {
        return "has other buckets for queries than for keys";
      }
      if (term.scores->buckets != found.buckets) return "has tables of different numbers of buckets";
    }
    scores.disentangled = std::move(found);
    return {};
  }

  const KnownFacts& facts_;
  const Scores* product_ = nullptr;
  double scale_ = 1;
  std::vector<ExpressionPointer> added_;
  std::vector<Replacement> replacements_;
  std::vector<RelativeTerm> relative_;
};

}  // namespace

std::optional<AttentionScores> scores_of(const ExpressionPointer& expression, const KnownFacts& facts,
                                         std::string& why) {
  ScoreReader reader(facts);
  why = reader.read(*expression, 1);
  return why.empty() ? reader.finish(why) : std::nullopt;
}

}  // namespace gpux_cpu::encoder
