#include "encoder/checked_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "cpu/side_by_side.h"
#include "encoder/architectures.h"
#include "encoder/plain_encoder.h"

namespace gpux_cpu::encoder {
namespace {

constexpr PlainSizes sizes;
constexpr std::int64_t pad_token_id = 1;
constexpr int random_architectures = 40;
constexpr std::size_t bert_encoders = 10;  // the first ones

// Of every way that recognised graphs have to hide keys and to pool.
std::vector<PlainEncoder> plain_encoders() {
  constexpr float lowest = std::numeric_limits<float>::lowest(), infinity = std::numeric_limits<float>::infinity();

  struct Row {
    Pooling pooling;
    bool normalize;
    MaskedKeys keys;
    bool from_front, counts_positions, masks_by_id, has_position_bias;
  };

  constexpr MaskedKeys added{-10000, false, false}, lost{lowest, false, false}, replaced{lowest, true, false},
      no_number{-infinity, true, false}, nothing{-infinity, true, true};
  const std::array rows{
      Row{Pooling::mean, true, lost, false, false, false, false},
      Row{Pooling::cls, false, lost, false, false, false, false},
      Row{Pooling::mean, false, no_number, false, false, false, false},
      Row{Pooling::cls, true, nothing, false, false, false, false},
      Row{Pooling::mean, false, added, true, false, false, false},
      Row{Pooling::cls, false, replaced, false, true, false, false},
      Row{Pooling::mean, true, lost, false, false, true, false},
      Row{Pooling::cls, false, lost, false, true, false, true},
      Row{Pooling::mean, true, nothing, false, true, false, true},
      Row{Pooling::cls, true, no_number, false, false, true, false},
  };
  std::mt19937_64 engine(20261123);
  std::vector<PlainEncoder> encoders;
  for (const Row& row : rows) {
    PlainEncoder& made = encoders.emplace_back(random_encoder(sizes, engine));
    made.settings.pooling = row.pooling;
    made.settings.normalize = row.normalize;
    made.settings.masked_keys = row.keys;
    made.settings.mask_from_front = row.from_front;
    if (row.counts_positions) {
      made.settings.position_ids = PositionIds::from_pad_token;
      made.settings.pad_token_id = pad_token_id;
    }
    if (row.masks_by_id) made.settings.masked_id = pad_token_id;
    if (!row.has_position_bias) continue;
    std::normal_distribution<float> normal(0, 0.5F);
    std::vector<float> relative_bias(sizes.num_heads * (2 * sizes.positions - 1));
    for (float& value : relative_bias) value = normal(engine);
    made.settings.relative_bias = relative_bias;
    made.settings.max_relative_positions = sizes.positions;
  }
  for (const Architecture& architecture : architectures()) encoders.push_back(made_encoder(architecture, engine));
  for (int i = 0; i < random_architectures; ++i) {
    encoders.push_back(made_encoder(random_architecture(engine), engine));
  }
  return encoders;
}

std::vector<const Kernels*> kernels_of_this_processor() {
  std::size_t count = 0;
  const Kernels* const* all = all_kernels(count);
  std::vector<const Kernels*> found;
  std::copy_if(all, all + count, std::back_inserter(found), [](const Kernels* kernels) { return kernels->can_run(); });
  return found;
}

/// Made once, for every run.
class Encoders {
 public:
  static const Encoders& all() {
    static const Encoders made;
    return made;
  }

  [[nodiscard]] std::size_t count() const { return plain_.size(); }

  [[nodiscard]] const PlainEncoder& plain(std::size_t which) const { return plain_[which]; }

  [[nodiscard]] const std::vector<const Kernels*>& kernels() const { return kernels_; }

  [[nodiscard]] const Encoder& packed(std::size_t which, Precision precision, std::size_t kernels) const {
    return *packed_[(which * precision_names.size() + static_cast<std::size_t>(precision)) * kernels_.size() + kernels];
  }

 private:
  Encoders() {
    for (const PlainEncoder& plain : plain_) {
      for (std::size_t precision = 0; precision < precision_names.size(); ++precision) {
        for (const Kernels* kernels : kernels_) {
          packed_.push_back(std::make_unique<Encoder>(plain.weights(static_cast<Precision>(precision)), *kernels));
        }
      }
    }
  }

  std::vector<PlainEncoder> plain_ = plain_encoders();
  std::vector<const Kernels*> kernels_ = kernels_of_this_processor();
  std::vector<std::unique_ptr<Encoder>> packed_;
};

class Source {
 public:
  explicit Source(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::size_t next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  std::size_t below(std::size_t end) { return next() % end; }

 private:
  std::span<const std::uint8_t> bytes_;
};

struct Inputs {
  std::vector<std::int64_t> ids, mask, types, positions;
  bool is_valid = true;
};

void add_token(Inputs& inputs, std::size_t byte) {
  // One of each kind that is not valid, seldom.
  constexpr std::array<std::int64_t, 4> beyond{-1, sizes.vocabulary_size, std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int64_t>::min()};
  if (byte >= 256 - beyond.size()) {
    inputs.ids.push_back(beyond[256 - 1 - byte]);
  } else {
    inputs.ids.push_back(static_cast<std::int64_t>(byte % sizes.vocabulary_size));
  }
  inputs.positions.push_back(static_cast<std::int64_t>((inputs.ids.size() * 5) % sizes.positions));
  inputs.types.push_back(byte == 250 ? static_cast<std::int64_t>(sizes.token_types)
                                     : static_cast<std::int64_t>(byte % 2));
}

void add_mask(Inputs& inputs, std::size_t byte, std::size_t length) {
  const std::size_t kind = byte % 8, number = byte / 8;
  std::minstd_rand random(static_cast<unsigned>(number) + 1);
  for (std::size_t position = 0; position < length; ++position) {
    bool counts = kind == all_count || kind == not_a_mask;
    if (kind == front_counts) counts = position < number;
    if (kind == back_counts) counts = position + number >= length;
    if (kind == some_count) counts = random() % 3 == 0;
    if (kind == odd_count) counts = position % 2 == 1;
    if (kind == only_last) counts = position + 1 == length;
    inputs.mask.push_back(counts ? 1 : 0);
  }
  if (kind == not_a_mask && length > 0) inputs.mask.back() = number % 2 == 0 ? 2 : -1;
}

bool is_valid(const Weights& settings, const Batch& batch, bool wants_first) {
  const std::size_t count = batch.batch_size * batch.sequence_length;
  const auto are_below = [count](const std::int64_t* values, std::size_t end) {
    return values == nullptr || std::all_of(values, values + count, [end](std::int64_t value) {
             return value >= 0 && value < static_cast<std::int64_t>(end);
           });
  };
  if (!are_below(batch.input_ids, sizes.vocabulary_size) ||
      (!settings.token_type_embeddings.empty() && !are_below(batch.token_type_ids, sizes.token_types)) ||
      !are_below(batch.attention_mask, 2)) {
    return false;
  }
  if (wants_first && batch.batch_size > 0 && batch.sequence_length == 0) return false;
  if (settings.max_relative_positions > 0 && batch.sequence_length > settings.max_relative_positions) return false;
  if (!max_position_ids(settings)) return true;
  if (settings.position_ids == PositionIds::index) return batch.sequence_length <= sizes.positions;
  if (settings.position_ids == PositionIds::input) return true;  // as add_token() makes them
  const bool counts_mask = settings.position_ids == PositionIds::from_mask;
  const std::size_t max_count = counts_mask ? sizes.positions : sizes.positions - 1;
  for (std::size_t text = 0; text < batch.batch_size; ++text) {
    std::size_t tokens = 0;
    for (std::size_t i = text * batch.sequence_length; i < (text + 1) * batch.sequence_length; ++i) {
      if (counts_mask ? batch.attention_mask == nullptr || batch.attention_mask[i] != 0
                      : batch.input_ids[i] != pad_token_id)
        ++tokens;
    }
    if (tokens > max_count) return false;
  }
  return true;
}

// Three times what thousands of random runs came to; of a text of which no token counts, masks of -10000 leave three
// digits of a score.
double allowed(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 2e-3;
    case Precision::bf16:
      return 0.2;
    case Precision::int8:
    case Precision::int8_bf16:
      break;
  }
  return 0.6;
}

std::string difference(const char* what, const std::vector<float>& got, const std::vector<float>& expected,
                       double most) {
  if (got.size() != expected.size()) return std::string(what) + " of another size";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    const double size = std::max(1.0, std::abs(static_cast<double>(expected[i])));
    if (std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])) <= most * size) continue;
    return std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(got[i]) + ", not " +
           std::to_string(expected[i]);
  }
  return {};
}

/// The same for rounded weights of any architecture: what a single element comes to depends on how large its row is, so
/// that all of them are compared together.
std::string difference_of_all(const char* what, const std::vector<float>& got, const std::vector<float>& expected,
                              double most) {
  if (got.size() != expected.size()) return std::string(what) + " of another size";
  double differences = 0, squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) != std::isnan(expected[i])) return std::string(what) + ": NaN in one of them";
    if (std::isnan(got[i])) continue;
    differences += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    squares += std::pow(static_cast<double>(expected[i]), 2);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(got.size(), 1));
  const double allowed_now = most * (std::sqrt(squares / count) + 0.05);
  if (std::sqrt(differences / count) <= allowed_now) return {};
  return std::string(what) + " are off by " + std::to_string(std::sqrt(differences / count)) + ", allowed is " +
         std::to_string(allowed_now);
}

void one_by_one(std::size_t parts, const std::function<void(std::size_t)>& work) {
  for (std::size_t part = parts; part-- > 0;) work(part);
}

}  // namespace

std::string checked_run(std::span<const std::uint8_t> bytes) {
  const Encoders& encoders = Encoders::all();
  Source source(bytes);
  const auto precision = static_cast<Precision>(source.below(precision_names.size()));
  const std::size_t kernels = source.below(encoders.kernels().size());
  const std::size_t which = source.below(encoders.count());
  const std::size_t threads = 1 + source.below(8);
  const std::size_t bits = source.next();
  const std::size_t texts = source.below(17), length = source.below(sizes.positions + 2);
  Inputs inputs;
  for (std::size_t text = 0; text < texts; ++text) {
    add_mask(inputs, source.next(), length);
    for (std::size_t position = 0; position < length; ++position) add_token(inputs, source.next());
  }
  const PlainEncoder& plain = encoders.plain(which);
  const bool has_attention_mask = (bits & has_mask) != 0 && !plain.settings.masked_id;
  const Batch batch{texts,
                    length,
                    inputs.ids.data(),
                    has_attention_mask ? inputs.mask.data() : nullptr,
                    (bits & has_types) != 0 ? inputs.types.data() : nullptr,
                    inputs.positions.data()};
  // What is not written shows.
  constexpr float untouched = 1e9F;
  std::vector<float> vectors((bits & wants_vectors) != 0 ? texts * plain.vector_size() : 0, untouched);
  std::vector<float> hidden((bits & wants_hidden) != 0 ? texts * length * sizes.hidden_size : 0, untouched);
  const bool wants_first = (bits & wants_vectors) != 0 && plain.settings.pooling == Pooling::cls;
  const bool should_run = is_valid(plain.settings, batch, wants_first);
  try {
    encoders.packed(which, precision, kernels)
        .run(batch, threads, (bits & has_real_threads) != 0 ? side_by_side : one_by_one,
             {(bits & wants_vectors) != 0 ? vectors.data() : nullptr,
              (bits & wants_hidden) != 0 ? hidden.data() : nullptr});
  } catch (const InvalidInput& error) {
    return should_run ? std::string("a valid batch is refused: ") + error.what() : std::string();
  }
  if (!should_run) return "a batch that is not valid is run";
  const PlainEncoder::Results expected = plain.run(batch);
  const auto compare = which < bert_encoders || precision == Precision::fp32 ? difference : difference_of_all;
  std::string wrong;
  if (!vectors.empty()) wrong = compare("vectors", vectors, expected.vectors, allowed(precision));
  if (wrong.empty() && !hidden.empty()) wrong = compare("hidden", hidden, expected.hidden_states, allowed(precision));
  if (wrong.empty()) return {};
  return wrong + " (encoder " + std::to_string(which) + ", " +
         std::string(precision_names[static_cast<std::size_t>(precision)]) + ", " +
         std::string(encoders.kernels()[kernels]->name) + ", " + std::to_string(texts) + " texts of " +
         std::to_string(length) + ")";
}

}  // namespace gpux_cpu::encoder
