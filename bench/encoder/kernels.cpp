// Texts a second of an encoder of a model's sizes, of random weights, for each precision and instruction set,
// and what share they are of what the inner loop does where everything is in the nearest cache.
//
//     build/release/bin/bench_encoder_kernels
//     build/release/bin/bench_encoder_kernels --shape modernbert --precision int8 --mix '1 of 8192'
//     build/release/bin/bench_encoder_kernels --isa avx2 --precision int8 --threads 2 --rounds 9
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include "encoder/encoder.h"

namespace gpux_cpu::encoder {
namespace {

/// Of one thread its processor's time, so that other programs count for less; of several, the time that passes.
class Stopwatch {
 public:
  explicit Stopwatch(std::size_t threads = 1) : clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {}

  [[nodiscard]] double seconds() const { return now() - start_; }

 private:
  [[nodiscard]] double now() const {
    timespec time{};
    ::clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  clockid_t clock_;
  double start_ = now();
};

/// The sizes of a model, and of what kind its layers are.
struct Shape {
  std::string_view name;
  std::size_t hidden_size, num_heads, num_kv_heads, head_size, intermediate_size, layers, max_positions;
  bool is_modern = false;   ///< norms before the branches, rotary positions, gated
  bool is_decoder = false;  ///< RMS norms, also of heads; causal
  std::size_t window = 0;   ///< of two in three layers, to each side; 0: none
};

// The modern ones with some of their layers: what a layer takes is the same.
constexpr std::array shapes{
    Shape{"minilm", 384, 12, 12, 32, 1536, 6, 512},
    Shape{"bert", 768, 12, 12, 64, 3072, 4, 512},
    Shape{"modernbert", 768, 12, 12, 64, 1152, 6, 8192, true, false, 64},
    Shape{"qwen3", 1024, 16, 8, 128, 3072, 4, 8192, true, true},
};

constexpr std::size_t vocabulary_size = 30522;

std::vector<float> random_values(std::size_t count, float spread, float middle = 0) {
  static std::mt19937 engine(20261122);
  std::normal_distribution<float> normal(middle, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

Linear random_linear(Precision precision, std::size_t inner, std::size_t columns) {
  const std::vector<float> weights = random_values(inner * columns, 0.05F);
  const PlainWeights plain{weights.data(), inner, columns, false};
  return {precision, std::span(&plain, 1), random_values(columns, 0.1F)};
}

Norm random_norm(const Shape& shape, std::size_t size) {
  Norm norm{random_values(size, 0.1F, 1), {}, 1e-6F, shape.is_decoder ? NormKind::rms_norm : NormKind::layer_norm};
  if (!shape.is_modern) norm.beta = random_values(size, 0.1F);
  return norm;
}

Layer random_layer(const Shape& shape, Precision precision, std::size_t index) {
  const auto [query_key_value, others] = layer_precision(precision, shape.layers - 1 - index);
  const std::size_t hidden_size = shape.hidden_size, query_columns = shape.num_heads * shape.head_size;
  const std::size_t columns = query_columns + 2 * shape.num_kv_heads * shape.head_size;
  Layer layer{.query_key_value = random_linear(query_key_value, hidden_size, columns),
              .attention_output = random_linear(others, query_columns, hidden_size),
              .up_projection = random_linear(others, hidden_size, (shape.is_modern ? 2 : 1) * shape.intermediate_size),
              .down_projection = random_linear(others, shape.intermediate_size, hidden_size),
              .gated = shape.is_modern,
              .causal = shape.is_decoder,
              .score_scale = 1 / std::sqrt(static_cast<float>(shape.head_size))};
  if (!shape.is_modern) {
    layer.attention_sum_norm = random_norm(shape, hidden_size);
    layer.feed_forward_sum_norm = random_norm(shape, hidden_size);
    return layer;
  }
  layer.attention_input_norm = random_norm(shape, hidden_size);
  layer.feed_forward_input_norm = random_norm(shape, hidden_size);
  layer.rotary_table = 0;
  if (shape.window > 0 && index % 3 != 0) layer.window = Window{shape.window, shape.window};
  if (!shape.is_decoder) return layer;
  layer.activation = Activation::silu;
  layer.query_norm = random_norm(shape, shape.head_size);
  layer.key_norm = random_norm(shape, shape.head_size);
  return layer;
}

Weights random_weights(const Shape& shape, Precision precision) {
  Weights weights{.hidden_size = shape.hidden_size,
                  .num_heads = shape.num_heads,
                  .num_kv_heads = shape.num_kv_heads,
                  .head_size = shape.head_size,
                  .embedding_size = shape.hidden_size};
  weights.word_embeddings = random_values(vocabulary_size * shape.hidden_size, 0.05F);
  if (shape.is_modern) {
    std::vector<float> frequencies(shape.head_size / 2);
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      frequencies[i] = std::pow(1e-4F, static_cast<float>(2 * i) / static_cast<float>(shape.head_size));
    }
    weights.rotary_tables.push_back(make_rotary_table(frequencies, shape.max_positions, false, 1));
    weights.final_norm = random_norm(shape, shape.hidden_size);
  } else {
    weights.position_embeddings = random_values(shape.max_positions * shape.hidden_size, 0.02F);
    weights.token_type_embeddings = random_values(2 * shape.hidden_size, 0.02F);
    weights.embedding_norm = random_norm(shape, shape.hidden_size);
  }
  for (std::size_t index = 0; index < shape.layers; ++index) {
    weights.layers.push_back(random_layer(shape, precision, index));
  }
  weights.normalize = true;
  return weights;
}

/// The lengths of the texts that run together, and what they are filled up to.
struct Mix {
  std::string name;
  std::size_t length = 0;
  std::vector<std::size_t> lengths;
};

std::vector<Mix> mixes(const Shape& shape) {
  std::vector<Mix> found{{"1 of 16", 16, {16}},
                         {"32 of 16", 16, std::vector<std::size_t>(32, 16)},
                         {"32 of 5-128", 128, {}},
                         {"32 of 128", 128, std::vector<std::size_t>(32, 128)}};
  std::mt19937 engine(7);
  // As sentences are: many short ones, few long, 34 in the mean.
  std::lognormal_distribution<double> lengths(3.3, 0.65);
  while (found[2].lengths.size() < 32) {
    const double length = lengths(engine);
    if (length >= 5 && length <= 128) found[2].lengths.push_back(static_cast<std::size_t>(length));
  }
  for (const std::size_t length : {512, 8192}) {
    if (length <= shape.max_positions) found.push_back({"1 of " + std::to_string(length), length, {length}});
  }
  return found;
}

/// Of the layers' matrices, for a token.
double products_of_a_token(const Shape& shape) {
  const std::size_t query_columns = shape.num_heads * shape.head_size,
                    columns = 2 * query_columns + 2 * shape.num_kv_heads * shape.head_size;
  return static_cast<double>(shape.layers * shape.hidden_size *
                             (columns + (shape.is_modern ? 3 : 2) * shape.intermediate_size));
}

/// The most memory that this process had, in MB.
double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Products a second of one matrix; many times over, so that what fits into a cache is there.
double products_a_second(const Kernels& kernels, Precision precision, std::size_t rows, std::size_t inner,
                         std::size_t columns) {
  const Linear linear = random_linear(precision, inner, columns);
  const std::vector<float> floats = random_values(rows * inner, 1);
  std::vector<std::uint16_t> bfloat16s(rows * inner);
  std::vector<std::uint8_t> bytes(rows * inner);
  std::vector<float> scale(rows), out(rows * columns);
  std::vector<std::int32_t> zero(rows);
  const Linear::Rows given{rows, floats.data(), inner, bfloat16s.data(), bytes.data(), scale.data(), zero.data()};
  linear.convert(kernels, given, 0, rows);
  const auto products = static_cast<double>(rows * inner * columns);
  const int runs = static_cast<int>(1 + 1e7 / products);
  double best = 0;
  for (int round = 0; round < 30; ++round) {
    const Stopwatch watch;
    for (int i = 0; i < runs; ++i) linear.multiply(kernels, given, 0, linear.panels(), out.data(), columns);
    best = std::max(best, runs * products / watch.seconds());
  }
  return best;
}

void on_threads(std::size_t parts, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t part = 1; part < parts; ++part) threads.emplace_back(work, part);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

struct Texts {
  explicit Texts(const Mix& mix) : length(mix.length), count(mix.lengths.size()) {
    std::mt19937 engine(5);
    for (const std::size_t own : mix.lengths) {
      tokens += own;
      for (std::size_t position = 0; position < length; ++position) {
        ids.push_back(static_cast<std::int64_t>(engine() % vocabulary_size));
        mask.push_back(position < own ? 1 : 0);
      }
    }
  }

  void run(const Encoder& encoder, std::size_t threads, std::vector<float>& vectors) const {
    vectors.resize(count * vector_size(encoder.weights()));
    encoder.run({count, length, ids.data(), mask.data(), nullptr}, threads, on_threads, {vectors.data(), nullptr});
  }

  std::size_t length, count, tokens = 0;
  std::vector<std::int64_t> ids, mask;
};

double seconds_of(const Encoder& encoder, const Texts& texts, std::size_t threads) {
  std::vector<float> vectors;
  const Stopwatch watch(threads);
  std::size_t runs = 0;
  double seconds = 0;
  for (; seconds < 0.01; ++runs) {
    texts.run(encoder, threads, vectors);
    seconds = watch.seconds();
  }
  return seconds / static_cast<double>(runs);
}

struct Options {
  std::string isa, precision, shape = "minilm", mix;
  std::size_t threads = 1, rounds = 30;
};

void measure(const Kernels& kernels, Precision precision, std::string_view name, const Shape& shape,
             const Options& options) {
  const std::size_t hidden_size = shape.hidden_size, intermediate_size = shape.intermediate_size;
  const auto product = [&](std::size_t rows, std::size_t inner, std::size_t columns) {
    return products_a_second(kernels, layer_precision(precision, 0).others, rows, inner, columns);
  };
  const double peak = product(56, hidden_size, panel_columns);
  fmt::print("{:<12} {:<9} one panel of 56 rows: {:.1f} GMAC/s\n", kernels.name, name, peak / 1e9);
  for (const std::size_t rows : {1, 16, 256}) {
    fmt::print(
        "  products of {:>3} rows: query, key and value {:.0f} %, up projection {:.0f} %, down projection {:.0f} % of "
        "it\n",
        rows, 100 * product(rows, hidden_size, 3 * hidden_size) / peak,
        100 * product(rows, hidden_size, intermediate_size) / peak,
        100 * product(rows, intermediate_size, hidden_size) / peak);
  }
  const Encoder encoder(random_weights(shape, precision), kernels);
  for (const Mix& mix : mixes(shape)) {
    if (!options.mix.empty() && options.mix != mix.name) continue;
    const Texts texts(mix);
    std::vector<double> rounds;
    (void)seconds_of(encoder, texts, options.threads);
    for (std::size_t round = 0; round < options.rounds; ++round) {
      rounds.push_back(seconds_of(encoder, texts, options.threads));
    }
    const double seconds = std::ranges::min(rounds);

    const double products =
        products_of_a_token(shape) * static_cast<double>(texts.tokens) / seconds / static_cast<double>(options.threads);
    fmt::print("  {:<12} {:>8.1f} texts/s {:>7.1f} GMAC/s a thread, {:>3.0f} % of the panel's; at most {:.0f} MB\n",
               mix.name, static_cast<double>(texts.count) / seconds, products / 1e9, 100 * products / peak,
               peak_megabytes());
  }
}

int run(const Options& options) {
  constexpr std::array<std::pair<Precision, std::string_view>, 4> precisions{{{Precision::fp32, "fp32"},
                                                                              {Precision::bf16, "bf16"},
                                                                              {Precision::int8, "int8"},
                                                                              {Precision::int8_bf16, "int8-bf16"}}};
  const auto* const shape = std::ranges::find(shapes, options.shape, &Shape::name);
  if (shape == shapes.end()) {
    fmt::print(stderr, "no shape '{}'; accepted: minilm, bert, modernbert, qwen3\n", options.shape);
    return 1;
  }
  std::size_t count = 0;
  const Kernels* const* all = all_kernels(count);
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Kernels& kernels = *all[i];
    if (!kernels.can_run() ||
        (options.isa.empty() ? &kernels != all[0] && i + 1 == count : options.isa != kernels.name)) {
      continue;
    }
    for (const auto& [precision, name] : precisions) {
      if (!options.precision.empty() && options.precision != name) continue;
      measure(kernels, precision, name, *shape, options);
      any = true;
    }
  }
  if (!any) fmt::print(stderr, "no such instruction set or precision, or this processor has it not\n");
  return any ? 0 : 1;
}

}  // namespace
}  // namespace gpux_cpu::encoder

int main(int argc, char** argv) {
  gpux_cpu::encoder::Options options;
  CLI::App app{"Texts a second of the encoder's layers, and what share of the processor's products they come to"};
  app.add_option("--isa", options.isa,
                 "an instruction set, as GPUX_ENCODER_ISA names them; all but the plain loops otherwise");
  app.add_option("--precision", options.precision, "fp32, bf16, int8 or int8-bf16; all otherwise");
  app.add_option("--shape", options.shape,
                 "minilm, bert, modernbert or qwen3; the last three with some of their layers");
  app.add_option("--mix", options.mix, "one of the mixes of texts, as they are printed; all otherwise");
  app.add_option("--threads", options.threads, "threads")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "the best of so many")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return gpux_cpu::encoder::run(options);
}
