// Tokens/s of a decoder of a model's sizes, of random weights: what is decoded with some tokens in the cache,
// and prompts; and what share that is of the memory's bandwidth and of the processor's products of bytes.
//
//     build/release/bin/bench_decoder_kernels
//     build/release/bin/bench_decoder_kernels --shape smollm2-135m --weights int8-32 --threads 1
#include <algorithm>
#include <array>
#include <atomic>
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

#include "decoder/decoder.h"
#include "limits.h"

namespace gpux_cpu::decoder {
namespace {

struct Shape {
  std::string_view name;
  std::size_t hidden_size, heads, kv_heads, head_size, intermediate_size, layers, vocabulary;
};

constexpr std::array shapes{
    Shape{"tiny", 256, 4, 2, 64, 512, 2, 1000},
    Shape{"smollm2-135m", 576, 9, 3, 64, 1536, 30, 49152},
    Shape{"qwen2.5-0.5b", 896, 14, 2, 64, 4864, 24, 151936},
    Shape{"llama3.2-1b", 2048, 32, 8, 64, 8192, 16, 128256},
};

struct Options {
  std::string shape = "qwen2.5-0.5b", weights = "int4-128";
  std::size_t threads = 2, rounds = 5, memory_bytes = std::size_t{256} << 20;
  std::string cache = "float32";
  CacheForm cache_form = CacheForm::float32;
  std::vector<std::size_t> rows{1, 4, 16}, contexts{128, 2048}, prompts{128, 512, 2048};
};

std::mt19937& engine() {
  static std::mt19937 all(20261125);
  return all;
}

Projection random_projection(std::string_view kind, std::size_t inner, std::size_t columns) {
  if (kind.starts_with("int")) {
    QuantizedColumns part{.bits = kind[3] == '4' ? 4U : 8U,
                          .block_size = static_cast<std::size_t>(std::stoul(std::string(kind.substr(5)))),
                          .inner = inner,
                          .columns = columns};
    std::vector<std::uint8_t> values(columns * part.blocks() * part.block_size * part.bits / 8);
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(engine()());
    const std::vector<float> scales(columns * part.blocks(), 0.01F);
    part.values = values.data();
    part.scales = scales.data();
    return BlockLinear(std::span(&part, 1), {});
  }
  std::vector<float> values(inner * columns);
  for (float& value : values) value = static_cast<float>(static_cast<std::int32_t>(engine()())) * 2e-11F;
  const PlainWeights plain{values.data(), inner, columns, false};
  const auto precision = kind == "bf16" ? Precision::bf16 : Precision::fp32;
  return Linear(precision, std::span(&plain, 1), {});
}

Norm random_norm(std::size_t size) {
  return {std::vector<float>(size, 1.0F), {}, 1e-6F, NormKind::rms_norm};
}

DecoderWeights random_weights(const Shape& shape, const Options& options, std::size_t positions) {
  DecoderWeights weights{.hidden_size = shape.hidden_size,
                         .heads = shape.heads,
                         .kv_heads = shape.kv_heads,
                         .head_size = shape.head_size,
                         .vocabulary = shape.vocabulary,
                         .max_positions = positions,
                         .cache_form = options.cache_form};
  std::vector<float> frequencies(shape.head_size / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(1e-4F, static_cast<float>(2 * i) / static_cast<float>(shape.head_size));
  }
  weights.rotary_tables.push_back(make_rotary_table(frequencies, positions, false, 1));
  for (std::size_t i = 0; i < shape.layers; ++i) {
    const std::size_t queries = shape.heads * shape.head_size, keys = shape.kv_heads * shape.head_size;
    DecoderLayer layer;
    layer.attention_input_norm = random_norm(shape.hidden_size);
    layer.query_key_value.push_back({random_projection(options.weights, shape.hidden_size, queries + 2 * keys), 0});
    layer.key_column = queries;
    layer.value_column = queries + keys;
    layer.columns = layer.query_key_value.front().projection.padded_columns();
    layer.rotary_table = 0;
    layer.rules.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
    layer.attention_output = random_projection(options.weights, queries, shape.hidden_size);
    layer.feed_forward_input_norm = random_norm(shape.hidden_size);
    layer.gate = random_projection(options.weights, shape.hidden_size, shape.intermediate_size);
    layer.up = random_projection(options.weights, shape.hidden_size, shape.intermediate_size);
    layer.down = random_projection(options.weights, shape.intermediate_size, shape.hidden_size);
    weights.layers.push_back(std::move(layer));
  }
  weights.final_norm = random_norm(shape.hidden_size);
  weights.language_head = random_projection(options.weights, shape.hidden_size, shape.vocabulary);
  weights.tokens = weights.language_head;
  return weights;
}

/// Threads that stay, as ONNX Runtime's do.
class Threads {
 public:
  explicit Threads(std::size_t count) {
    for (std::size_t i = 1; i < count; ++i) {
      others_.emplace_back([this](const std::stop_token& stop) {
        std::size_t seen = 0;
        while (!stop.stop_requested()) {
          const std::size_t now = step_.load(std::memory_order_acquire);
          if (now == seen) {
            std::this_thread::yield();
            continue;
          }
          seen = now;
          work();
          done_.fetch_add(1, std::memory_order_release);
        }
      });
    }
  }

  void run(std::size_t parts, const std::function<void(std::size_t)>& work_of_part) {
    work_ = &work_of_part;
    parts_ = parts;
    next_ = 0;
    done_ = 0;
    step_.fetch_add(1, std::memory_order_release);
    work();
    while (done_.load(std::memory_order_acquire) != others_.size()) std::this_thread::yield();
  }

 private:
  void work() {
    for (std::size_t part = next_++; part < parts_; part = next_++) (*work_)(part);
  }

  std::atomic<std::size_t> step_ = 0, next_ = 0, done_ = 0;
  std::size_t parts_ = 0;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::vector<std::jthread> others_;
};

struct Run {
  Run(const Decoder& decoder, std::size_t batch, std::size_t sequence, std::size_t context)
      : decoder(decoder),
        ids(batch * sequence),
        mask(batch * (context + sequence), 1),
        logits(batch * decoder.weights().vocabulary) {
    const DecoderWeights& weights = decoder.weights();
    for (std::int64_t& id : ids) id = static_cast<std::int64_t>(engine()() % weights.vocabulary);
    const std::size_t length = context + sequence;
    const std::size_t bytes =
        batch * weights.kv_heads * length * cache_row_bytes(weights.cache_form, weights.head_size);
    given = {.batch = batch,
             .sequence = sequence,
             .total = context + sequence,
             .input_ids = ids.data(),
             .attention_mask = mask.data(),
             .past_length = length,
             .present_length = length};
    for (std::size_t i = 0; i < 2 * weights.layers.size(); ++i) {
      caches.emplace_back((bytes + sizeof(float) - 1) / sizeof(float));
      if (weights.cache_form == CacheForm::float32) {
        for (float& value : caches.back()) value = static_cast<float>(engine()() % 1000) * 1e-3F;
      }
    }
    for (std::size_t i = 0; i < caches.size(); i += 2) {
      float *keys = caches[i].data(), *values = caches[i + 1].data();
      given.layers.push_back({keys, values, keys, values});
    }
    given.logits = logits.data();
  }

  [[nodiscard]] double seconds(Threads& threads, std::size_t count) const {
    const double start = seconds_now(count);
    decoder.run(
        given, count, [&](std::size_t parts, const auto& work) { threads.run(parts, work); }, nullptr);
    return seconds_now(count) - start;
  }

  const Decoder& decoder;
  std::vector<std::int64_t> ids, mask;
  std::vector<float> logits;
  std::vector<std::vector<float>> caches;
  DecoderBatch given;
};

int run(const Options& options) {
  const auto* const shape = std::ranges::find(shapes, options.shape, &Shape::name);
  if (shape == shapes.end()) {
    fmt::print(stderr, "no shape '{}'; accepted: tiny, smollm2-135m, qwen2.5-0.5b, llama3.2-1b\n", options.shape);
    return 1;
  }
  const std::size_t most =
      std::max(*std::ranges::max_element(options.contexts) + 1, *std::ranges::max_element(options.prompts));
  const Decoder decoder(random_weights(*shape, options, most));
  const DecoderWeights& weights = decoder.weights();
  Threads threads(options.threads);
  double bandwidth = 0, products = 0;
  const auto measure_limits = [&] {
    bandwidth = std::max(bandwidth, memory_bandwidth(options.threads, options.memory_bytes));
    products = std::max(products, byte_products_a_second() * static_cast<double>(options.threads));
  };
  fmt::print("{} {} {}, {} threads, {}: {:.0f} MB a step, {:.3f} G products a token\n", shape->name, options.weights,
             options.cache + " cache", options.threads, block_kernels().name,
             static_cast<double>(weights.bytes_per_step()) / 1e6,
             static_cast<double>(weights.products_per_token()) / 1e9);

  struct Result {
    std::string name;
    double tokens, bytes, products, best = 1e9;
    Run run;
  };

  std::vector<Result> results;
  const double position_bytes =
      static_cast<double>(2 * shape->layers * shape->kv_heads * cache_row_bytes(options.cache_form, shape->head_size));
  const auto all_products = static_cast<double>(weights.products_per_token());
  const auto head_products = static_cast<double>(shape->hidden_size * shape->vocabulary);
  for (const std::size_t context : options.contexts) {
    for (const std::size_t rows : options.rows) {
      const auto count = static_cast<double>(rows);
      results.push_back(
          {fmt::format("decode {:>2} rows at {}", rows, context), count,
           static_cast<double>(weights.bytes_per_step()) + count * position_bytes * static_cast<double>(context),
           count * all_products, 1e9, Run(decoder, rows, 1, context)});
    }
  }
  for (const std::size_t prompt : options.prompts) {
    const auto count = static_cast<double>(prompt);
    results.push_back({fmt::format("prompt of {}", prompt), count, static_cast<double>(weights.bytes_per_step()),
                       count * (all_products - head_products) + head_products, 1e9, Run(decoder, 1, prompt, 0)});
  }
  for (std::size_t round = 0; round < options.rounds; ++round) {
    measure_limits();
    for (Result& result : results) {
      for (int i = 0; i < (result.best < 0.05 ? 8 : 1); ++i) {
        result.best = std::min(result.best, result.run.seconds(threads, options.threads));
      }
    }
  }
  fmt::print("memory {:.1f} GB/s, {:.0f} G products of bytes/s\n", bandwidth / 1e9, products / 1e9);
  for (const Result& result : results) {
    fmt::print("{:<22} {:8.2f} ms {:8.1f} tokens/s, {:3.0f} % of the bandwidth, {:3.0f} % of the products\n",
               result.name, 1e3 * result.best, result.tokens / result.best,
               100 * result.bytes / result.best / bandwidth, 100 * result.products / result.best / products);
  }
  return 0;
}

}  // namespace
}  // namespace gpux_cpu::decoder

int main(int argc, char** argv) {
  gpux_cpu::decoder::Options options;
  CLI::App app{"Tokens/s of the decoder's layers, and what share of the machine's limits they come to"};
  app.add_option("--shape", options.shape, "tiny, smollm2-135m, qwen2.5-0.5b or llama3.2-1b");
  app.add_option("--weights", options.weights, "int4-BLOCK, int8-BLOCK, bf16 or fp32");
  app.add_option("--threads", options.threads, "threads")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "the best of so many")->check(CLI::PositiveNumber);
  app.add_option("--rows", options.rows, "rows that are decoded together");
  app.add_option("--contexts", options.contexts, "tokens in the cache");
  app.add_option("--prompts", options.prompts, "tokens of a prompt");
  app.add_option("--memory-bytes", options.memory_bytes, "read again and again for the bandwidth")
      ->check(CLI::PositiveNumber);
  app.add_option("--cache", options.cache, "keys and values: float32 (default), float16 or int8")
      ->check(CLI::IsMember({"float32", "float16", "int8"}));
  CLI11_PARSE(app, argc, argv);
  using gpux_cpu::decoder::CacheForm;
  if (options.cache == "float16") options.cache_form = CacheForm::float16;
  if (options.cache == "int8") options.cache_form = CacheForm::int8;
  return gpux_cpu::decoder::run(options);
}
