// Copies and bytes per run between the host and a provider's device, of a model's inputs and outputs: as infer() makes
// them, and with values that stay on the device. The results of both are compared.
//
//     build/release/bin/bench_copies --provider example --library build/release/lib/libgpux_example_provider.so
//     GPUX_EXAMPLE_PINNED=off build/release/bin/bench_copies --library build/release/lib/libgpux_example_provider.so
//     GPUX_EXAMPLE_RUNS=one GPUX_EXAMPLE_SPEED=100,8,100 build/release/bin/bench_copies --overlap 64 --elements 200000
//         --library build/release/lib/libgpux_example_provider.so
//     build/release/bin/bench_copies --provider webgpu --library .deps/webgpu/libonnxruntime_providers_webgpu.so
//         --encoder FOLDER --decoder FOLDER
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>

#include "base/scratch_folder.h"
#include "embedding/embedder.h"
#include "embedding/graph_pooling.h"
#include "generation/decoder.h"
#include "gpux/device_tensor.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"
#include "onnx/graph_writer.h"
#include "ort/compute_turn.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux {
namespace {

struct Flags {
  std::string provider = "example", library, encoder, decoder;
  std::size_t elements = 100'000, runs = 8, texts = 16, prompt = 32, tokens = 32, overlap = 0, users = 8;
};

LoadOptions load_options(const Flags& flags) {
  LoadOptions options;
  options.provider = flags.provider;
  options.intra_threads = 1;
  if (!flags.library.empty()) options.provider_libraries.push_back({flags.provider, flags.library});
  return options;
}

TransferCounts operator-(const TransferCounts& after, const TransferCounts& before) {
  return {.to_device = after.to_device - before.to_device,
          .to_device_bytes = after.to_device_bytes - before.to_device_bytes,
          .from_device = after.from_device - before.from_device,
          .from_device_bytes = after.from_device_bytes - before.from_device_bytes,
          .to_device_pinned = after.to_device_pinned - before.to_device_pinned,
          .from_device_pinned = after.from_device_pinned - before.from_device_pinned};
}

using Numbers = std::vector<float>;

void append(const Tensor& tensor, Numbers& numbers) {
  const auto floats = tensor.as<float>();
  numbers.insert(numbers.end(), floats.begin(), floats.end());
}

/// What a case does, and the results that are compared.
using Work = std::function<Numbers()>;

double largest_difference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}));
  return largest;
}

/// Blocks of device memory that the example provider has allocated; empty: another provider, which does not count them.
std::optional<std::uint64_t> allocations(const Flags& flags) {
  void* const library = flags.library.empty() ? nullptr : ::dlopen(flags.library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return std::nullopt;
  const auto count = reinterpret_cast<void (*)(std::uint64_t*)>(::dlsym(library, "GpuxExampleCopies"));
  if (count == nullptr) return std::nullopt;
  std::array<std::uint64_t, 14> counts{};
  count(counts.data());
  return counts[6];
}

struct Counts {
  TransferCounts transfers;
  std::optional<std::uint64_t> allocations;
};

Counts counts_of(const Runtime& runtime, const Flags& flags) {
  return {runtime.transfers(), allocations(flags)};
}

void print_row(std::string_view name, std::string_view values, const Counts& before, const Counts& after,
               std::size_t runs) {
  const TransferCounts counts = after.transfers - before.transfers;
  const auto per_run = [&](std::uint64_t count) { return static_cast<double>(count) / static_cast<double>(runs); };
  fmt::print("{:<28} {:<8} {:>9.2f} {:>12.0f} {:>9.2f} {:>12.0f} {:>9.2f} {:>9}\n", name, values,
             per_run(counts.to_device), per_run(counts.to_device_bytes), per_run(counts.from_device),
             per_run(counts.from_device_bytes), per_run(counts.to_device_pinned + counts.from_device_pinned),
             after.allocations && before.allocations
                 ? fmt::format("{:.2f}", per_run(*after.allocations - *before.allocations))
                 : "-");
}

// Each once: per one of `runs`.
void compare(const Flags& flags, std::string_view name, std::size_t runs, const Runtime& before_runtime,
             const Work& before, const Runtime& after_runtime, const Work& after) {
  const Counts start_before = counts_of(before_runtime, flags);
  const Numbers expected = before();
  print_row(name, "host", start_before, counts_of(before_runtime, flags), runs);
  const Counts start_after = counts_of(after_runtime, flags);
  const Numbers found = after();
  print_row("", "device", start_after, counts_of(after_runtime, flags), runs);
  fmt::print("{:<28} largest difference of the results {:g}\n", "", largest_difference(expected, found));
}

std::filesystem::path write_product(const ScratchFolder& folder) {
  const std::filesystem::path file = folder.path() / "product.onnx";
  const std::array<onnx::WrittenSize, 1> sizes{"n"};
  onnx::GraphWriter graph("product");
  for (const char* name : {"a", "b"}) graph.input(name, ElementType::float32, sizes);
  graph.node("Mul", {"a", "b"}, {}, "c");
  graph.output("c", ElementType::float32, sizes);
  graph.write(file, 17, 8);
  return file;
}

void compare_products(const Flags& flags) {
  const ScratchFolder folder;
  const Runtime runtime(write_product(folder), load_options(flags));
  fmt::print("{}\n", to_line(runtime.verdict()));
  Tensor a = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(flags.elements)}), b = a;
  b = Tensor::allocate(ElementType::float32, a.shape());
  for (std::size_t i = 0; i < flags.elements; ++i) {
    a.mutable_as<float>()[i] = static_cast<float>(i % 97);
    b.mutable_as<float>()[i] = 1 + static_cast<float>(i % 7) / 8;
  }
  const auto on_host = [&] {
    Tensor state = a;
    for (std::size_t i = 0; i < flags.runs; ++i)
      state = *runtime.infer({{"a", state}, {"b", b}}).front().second.tensor();
    Numbers numbers;
    append(state, numbers);
    return numbers;
  };
  const auto on_device = [&] {
    const DeviceTensor factor = runtime.upload(b, "b");
    DeviceTensor state = runtime.upload(a, "a");
    for (std::size_t i = 0; i < flags.runs; ++i) {
      state = runtime.infer_on_device({}, {{"a", state}, {"b", factor}}).front().second;
    }
    Numbers numbers;
    append(state.read(), numbers);
    return numbers;
  };
  compare(flags, fmt::format("{} Mul in a row, per run", flags.runs), flags.runs, runtime, on_host, runtime, on_device);
}

void compare_texts(const Flags& flags) {
  const checkpoint::SentenceModel model = checkpoint::read_sentence_model(flags.encoder);
  LoadOptions plain = load_options(flags), pooled = plain;
  pooled.pooled_output = embedding::graph_pooling(model, ModelInspector::inspect(model.onnx_file).signature);
  const embedding::TextEmbedder before(model, Runtime(model.onnx_file, plain), TextBatching::throughput);
  const embedding::TextEmbedder after(model, Runtime(model.onnx_file, pooled), TextBatching::throughput);
  fmt::print("{}\n", to_line(after.runtime().verdict()));
  const auto vectors = [&](const embedding::TextEmbedder& embedder) {
    std::vector<embedding::PreparedText> texts;
    for (std::size_t i = 0; i < flags.texts; ++i) {
      texts.push_back(embedder.encoder().prepare(
          fmt::format("text {} of a run that all of these texts share, of about as many tokens", i), {}));
    }
    Numbers numbers;
    for (const std::vector<float>& vector : embedder.embed(texts, {})) {
      numbers.insert(numbers.end(), vector.begin(), vector.end());
    }
    return numbers;
  };
  compare(
      flags,
      fmt::format("{} texts of {} tokens, per run", flags.texts,
                  before.encoder()
                      .prepare("text 1 of a run that all of these texts share, of about as many tokens", {})
                      .length),
      1, before.runtime(), [&] { return vectors(before); }, after.runtime(), [&] { return vectors(after); });
}

/// Steps of a generator with fixed tokens: the keys and values that a run gives go into the next.
class Steps {
 public:
  Steps(const Flags& flags, const Runtime& runtime)
      : flags_(flags), runtime_(runtime), signature_(generation::require_decoder(runtime.info())) {}

  template <typename Values, typename Run>
  Numbers play(const Values& first, const Run& run) const {
    Numbers numbers;
    Values caches = first;
    std::size_t past = 0;
    for (std::size_t step = 0; step <= flags_.tokens; ++step) {
      const std::size_t count = step == 0 ? flags_.prompt : 1;
      caches = run(tokens(past, count), caches, numbers);
      past += count;
    }
    return numbers;
  }

  [[nodiscard]] Numbers on_host() const {
    return play(no_caches<NamedValues>(), [&](NamedValues inputs, const NamedValues& caches, Numbers& numbers) {
      inputs.insert(inputs.end(), caches.begin(), caches.end());
      const NamedValues outputs = runtime_.infer(inputs);
      append(*find(outputs, signature_.names.logits)->tensor(), numbers);
      NamedValues next;
      for (const auto& [present, past] : names()) next.emplace_back(past, *find(outputs, present));
      return next;
    });
  }

  [[nodiscard]] Numbers on_device() const {
    return play(no_caches<NamedDeviceTensors>(),
                [&](const NamedValues& inputs, const NamedDeviceTensors& caches, Numbers& numbers) {
                  const NamedDeviceTensors outputs = runtime_.infer_on_device(inputs, caches);
                  const auto named = [&](const std::string& name) {
                    return std::ranges::find(outputs, name, &NamedDeviceTensor::first)->second;
                  };
                  append(named(signature_.names.logits).read(), numbers);
                  NamedDeviceTensors next;
                  for (const auto& [present, past] : names()) next.emplace_back(past, named(present));
                  return next;
                });
  }

 private:
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> names() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& layer : signature_.layers) {
      all.emplace_back(layer.present_key, layer.past_key);
      all.emplace_back(layer.present_value, layer.past_value);
    }
    return all;
  }

  template <typename Values>
  [[nodiscard]] Values no_caches() const {
    Values none;
    for (const auto& [present, past] : names()) {
      none.emplace_back(past, typename Values::value_type::second_type(Tensor::allocate(
                                  signature_.cache.type, {1, signature_.cache.heads, 0, signature_.cache.head_size})));
    }
    return none;
  }

  [[nodiscard]] NamedValues tokens(std::size_t past, std::size_t count) const {
    const auto row = [](std::size_t size, const auto& value) {
      Tensor tensor = Tensor::allocate(ElementType::int64, {1, static_cast<std::int64_t>(size)});
      for (std::size_t i = 0; i < size; ++i) tensor.mutable_as<std::int64_t>()[i] = static_cast<std::int64_t>(value(i));
      return tensor;
    };
    NamedValues inputs{{signature_.names.input_ids, row(count, [&](std::size_t i) { return 5 + (past + i) % 100; })},
                       {signature_.names.attention_mask, row(past + count, [](std::size_t) { return 1; })}};
    if (signature_.has_position_ids) {
      inputs.emplace_back(signature_.names.position_ids, row(count, [&](std::size_t i) { return past + i; }));
    }
    return inputs;
  }

  const Flags& flags_;
  const Runtime& runtime_;
  generation::DecoderSignature signature_;
};

void compare_steps(const Flags& flags) {
  const Runtime runtime(std::filesystem::path(flags.decoder) / "model.onnx", load_options(flags));
  fmt::print("{}\n", to_line(runtime.verdict()));
  const Steps steps(flags, runtime);
  compare(
      flags, fmt::format("{} tokens behind {}, per token", flags.tokens, flags.prompt), flags.tokens, runtime,
      [&] { return steps.on_host(); }, runtime, [&] { return steps.on_device(); });
}

/// Texts of several users that one decoder continues: their logits, step by step.
class Users {
 public:
  Users(const Flags& flags, generation::Decoder& decoder) : flags_(flags), decoder_(decoder), texts_(flags.users) {
    for (std::size_t user = 0; user < flags.users; ++user) {
      for (std::size_t i = 0; i < prompt_of(user) + flags.tokens; ++i) {
        texts_[user].push_back(static_cast<std::uint32_t>(5 + (user * 13 + i * 7) % 100));
      }
      const generation::DecoderRow prompt{0, std::span(texts_[user]).first(prompt_of(user))};
      (void)decoder_.run(user, {&prompt, 1});
    }
  }

  /// One token of each user, in a run for each or in one for all.
  [[nodiscard]] Numbers step(std::size_t index, bool together) {
    std::vector<generation::DecoderRow> rows;
    for (std::size_t user = 0; user < flags_.users; ++user) {
      const std::size_t past = prompt_of(user) + index;
      rows.push_back({past, std::span(texts_[user]).subspan(past, 1)});
    }
    Numbers numbers;
    if (together) {
      append(decoder_.run(0, rows), numbers);
    } else {
      for (std::size_t user = 0; user < flags_.users; ++user) append(decoder_.run(user, {&rows[user], 1}), numbers);
    }
    return numbers;
  }

 private:
  [[nodiscard]] std::size_t prompt_of(std::size_t user) const noexcept { return flags_.prompt + user; }

  const Flags& flags_;
  generation::Decoder& decoder_;
  std::vector<std::vector<std::uint32_t>> texts_;
};

Numbers play_users(const Flags& flags, generation::Decoder& decoder, bool together) {
  Users users(flags, decoder);
  Numbers numbers = users.step(0, together);  // rows are moved for it
  const Counts before = counts_of(decoder.runtime(), flags);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 1; i < flags.tokens; ++i) {
    const Numbers step = users.step(i, together);
    numbers.insert(numbers.end(), step.begin(), step.end());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const std::size_t tokens = (flags.tokens - 1) * flags.users;
  print_row(fmt::format("{} users, per token", flags.users), together ? "one run" : "alone", before,
            counts_of(decoder.runtime(), flags), tokens);
  fmt::print("{:<28} {:.1f} tokens/s\n", "", static_cast<double>(tokens) / took.count());
  return numbers;
}

void compare_users(const Flags& flags) {
  constexpr std::size_t slots_of_trial = 3;
  const std::size_t slots = std::max(flags.users, slots_of_trial);
  generation::Decoder decoder(Runtime(std::filesystem::path(flags.decoder) / "model.onnx", load_options(flags)), slots);
  decoder.reserve(flags.prompt + flags.users + flags.tokens, std::vector<std::size_t>(slots, 0));
  decoder.compare_rows(100, flags.prompt + flags.users + flags.tokens);
  fmt::print("{}\n", to_line(decoder.verdict()));
  const Numbers expected = play_users(flags, decoder, false), found = play_users(flags, decoder, true);
  fmt::print("{:<28} largest difference of the results {:g}\n", "", largest_difference(expected, found));
}

/// The queue of a server with so many runs of one session in flight; the sum of the products.
double seconds_of(const Flags& flags, const Runtime& runtime, std::size_t in_flight, Numbers& sums) {
  const auto turn = std::make_shared<ort::ComputeTurn>(1);
  std::vector<std::unique_ptr<runtime::Replica>> replicas;
  for (std::size_t i = 0; i < in_flight; ++i) {
    replicas.push_back(std::make_unique<runtime::SessionReplica>(runtime, 0, std::vector<unsigned>(), true, turn));
  }
  runtime::Scheduler scheduler(std::move(replicas), {.computing_per_device = 1});
  Tensor b = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(flags.elements)});
  for (std::size_t i = 0; i < flags.elements; ++i) b.mutable_as<float>()[i] = static_cast<float>(i % 7);
  std::vector<std::promise<float>> answers(flags.overlap);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < flags.overlap; ++i) {
    Tensor a = Tensor::allocate(ElementType::float32, b.shape());
    for (float& element : a.mutable_as<float>()) element = static_cast<float>(i);
    scheduler.submit({.inputs = {{"a", std::move(a)}, {"b", b}}, .outputs = {0}, .deadline = {}},
                     [&answer = answers[i]](runtime::InferAnswer&& given) {
                       if (given.error) {
                         answer.set_exception(std::make_exception_ptr(*given.error));
                         return;
                       }
                       float sum = 0;
                       for (const float element : given.outputs.front().second.tensor()->as<float>()) sum += element;
                       answer.set_value(sum);
                     });
  }
  sums.clear();
  for (std::promise<float>& answer : answers) sums.push_back(answer.get_future().get());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void compare_overlap(const Flags& flags) {
  const ScratchFolder folder;
  const Runtime runtime(write_product(folder), load_options(flags));
  fmt::print("\n{} runs of one Mul of {} float32: {}\n", flags.overlap, flags.elements, to_line(runtime.verdict()));
  Numbers expected, sums;
  const double alone = seconds_of(flags, runtime, 1, expected);
  for (const std::size_t in_flight : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    const double seconds = in_flight == 1 ? alone : seconds_of(flags, runtime, in_flight, sums);
    fmt::print("{} in flight: {:6.1f} runs/s, {:.2f} of one in flight; largest difference of the results {:g}\n",
               in_flight, static_cast<double>(flags.overlap) / seconds, alone / seconds,
               in_flight == 1 ? 0 : largest_difference(expected, sums));
  }
}

}  // namespace
}  // namespace gpux

int main(int count, char** arguments) {
  gpux::Flags flags;
  CLI::App program("Copies between the host and a device");
  program.add_option("--provider", flags.provider, "as of gpux run");
  program.add_option("--library", flags.library, "the provider's library");
  program.add_option("--encoder", flags.encoder, "folder of a text encoder whose ONNX file does not pool");
  program.add_option("--decoder", flags.decoder, "folder with the model.onnx of a generator, with its configuration");
  program.add_option("--texts", flags.texts, "of a run");
  program.add_option("--prompt", flags.prompt, "tokens of the first run");
  program.add_option("--tokens", flags.tokens, "that are generated");
  program.add_option("--users", flags.users, "whose texts are generated at the same time; 0: none");
  program.add_option("--elements", flags.elements, "of each input of Mul");
  program.add_option("--overlap", flags.overlap, "runs of Mul whose copies overlap with computations; 0: none");
  CLI11_PARSE(program, count, arguments);
  try {
    fmt::print("{:<28} {:<8} {:>9} {:>12} {:>9} {:>12} {:>9} {:>9}\n", "", "on", "to device", "bytes", "from it",
               "bytes", "pinned", "blocks");
    gpux::compare_products(flags);
    if (!flags.encoder.empty()) gpux::compare_texts(flags);
    if (!flags.decoder.empty()) gpux::compare_steps(flags);
    if (!flags.decoder.empty() && flags.users != 0) gpux::compare_users(flags);
    if (flags.overlap != 0) gpux::compare_overlap(flags);
  } catch (const gpux::Error& error) {
    fmt::print(stderr, "{}\n", error.message());
    return 1;
  }
  return 0;
}
