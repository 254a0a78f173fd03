// Texts a second: a plain ONNX Runtime loop over texts that are tokens already, a run each, and embed_all() from the
// texts on, with either batching, by turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "embed/plain_texts.h"
#include "embedding/embed_all.h"
#include "tensor/json_writer.h"

namespace gpux::bench {
namespace {

struct Settings {
  std::string model, texts, provider = "cpu", precision;
  unsigned threads = 2;
  int rounds = 5;
  std::size_t count = 0;
  double seconds = 2;
};

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.empty()) throw std::runtime_error("there is no text in '" + file + "'");
  return lines;
}

double embedded_a_second(const embedding::TextEmbedder& embedder, const std::vector<std::string>& texts,
                         const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(settings.seconds);
  std::size_t next = 0;
  const auto source = [&](std::string& text) {
    if (Clock::now() >= end) return false;
    text = texts[next++ % texts.size()];
    return true;
  };
  const std::uint64_t count =
      embedding::embed_all(embedder, {}, source, settings.threads, [](std::string_view, std::span<const float>) {});
  return static_cast<double>(count) / std::chrono::duration<double>(Clock::now() - start).count();
}

// One line of JSON, as `gpux embed` writes it.
void write_line(std::string& out, std::string_view text, std::span<const float> vector) {
  out.clear();
  append_json_string(out, text);
  append_json(out,
              Tensor::borrow(ElementType::float32, {static_cast<std::int64_t>(vector.size())}, std::as_bytes(vector)));
  out += '\n';
}

// Where the time of a text goes, which of it one thread at a time spends, and what that allows 64 processors.
void print_stages(const embedding::TextEmbedder& embedder, const std::vector<std::string>& texts,
                  const Settings& settings) {
  embedding::EmbedTimes times;
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  std::string line;
  const embedding::EmbeddingSink sink = [&](std::string_view text, const embedding::Embedding& embedding) {
    write_line(line, text, embedding.values);
    (void)std::fwrite(line.data(), 1, line.size(), nowhere);
  };
  std::size_t next = 0;
  const auto source = [&](std::string& text) {
    if (next == settings.count) return false;
    text = texts[next++ % texts.size()];
    return true;
  };
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  (void)embedding::embed_all(embedder, {}, source, settings.threads, sink, 0, &times);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  (void)std::fclose(nowhere);
  const auto count = static_cast<double>(times.texts.load());
  const auto each = [&](const std::atomic<std::uint64_t>& time) { return static_cast<double>(time.load()) / count; };
  const double read = each(times.read), prepare = each(times.prepare), run = each(times.run), sunk = each(times.sink),
               locked = each(times.locked);
  // Each of these is one thread's at a time, though not the same one's: the longest bounds the pipeline, and Amdahl's
  // law with all of them is the speedup that is certain.
  const double longest = std::max({read, sunk, locked});
  const double share = (read + sunk + locked) / (read + prepare + run + sunk + locked);
  constexpr double processors = 64;
  const std::string stages =
      fmt::format(R"("read": {:.0f}, "tokenize": {:.0f}, "run": {:.0f}, "write": {:.0f}, "locked": {:.0f})", read,
                  prepare, run, sunk, locked);
  fmt::print(R"({{"threads": {}, "texts": {}, "texts_per_s": {:.1f}, "ns_per_text": {{{}}}, "locks_per_text": {:.2f}, )"
             R"("longest_lock_ns": {}, "serial_share": {:.5f}, "speedup_at_64": {:.1f}, "max_texts_per_s": {:.0f}}})"
             "\n",
             settings.threads, times.texts.load(), count / seconds, stages, each(times.locks),
             times.longest_lock.load(), share, 1 / (share + (1 - share) / processors), 1e9 / longest);
}

int measure(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Prints texts a second as JSON: of each round, and the ratio of the medians."};
  app.add_option("--model", settings.model, "A folder with tokenizer.json and model.onnx")->required();
  app.add_option("--texts", settings.texts, "A file of texts, one a line")->required();
  app.add_option("--provider", settings.provider, "Of embed_all(); the plain loop is the CPU's");
  app.add_option("--precision", settings.precision, "Of embed_all(), as of gpux");
  app.add_option("--threads", settings.threads, "Texts at a time")->check(CLI::Range(1U, 1024U));
  app.add_option("--rounds", settings.rounds, "Measurements of each")->check(CLI::Range(1, 1000));
  app.add_option("--seconds", settings.seconds, "Of each measurement")->check(CLI::PositiveNumber);
  app.add_option("--stages", settings.count,
                 "Embed so many texts once, and print where the time of a text goes, and how many processors that "
                 "would keep busy")
      ->check(CLI::Range(1, 100'000'000));
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::string> texts = lines_of(settings.texts);
  checkpoint::SentenceModel model = checkpoint::read_sentence_model(settings.model);
  const std::filesystem::path onnx_file = model.onnx_file;
  LoadOptions load;
  load.provider = settings.provider;
  load.precision = settings.precision;
  load.strict = Strictness::provider;
  load.intra_threads = 1;
  const embedding::TextEmbedder embedder(model, Runtime(onnx_file, load));
  const embedding::TextEmbedder quicker(std::move(model), Runtime(onnx_file, load), TextBatching::throughput);
  if (settings.count != 0) {
    print_stages(embedder, texts, settings);
    print_stages(quicker, texts, settings);
    return 0;
  }
  std::vector<embedding::PreparedText> prepared;
  std::size_t tokens = 0;
  for (const std::string& text : texts) {
    prepared.push_back(embedder.encoder().prepare(text, {}));
    tokens += prepared.back().tokens;
  }
  PlainTexts plain(embedder.runtime().verdict().runtime_path, onnx_file, embedder.encoder().output({}), prepared);
  std::vector<double> plain_rates, embed_rates, throughput_rates;
  for (int round = 0; round < settings.rounds; ++round) {
    plain_rates.push_back(plain.measure(settings.threads, std::chrono::duration<double>(settings.seconds)));
    embed_rates.push_back(embedded_a_second(embedder, texts, settings));
    throughput_rates.push_back(embedded_a_second(quicker, texts, settings));
  }
  const auto median = [](std::vector<double> rates) {
    std::ranges::sort(rates);
    return rates[rates.size() / 2];
  };
  fmt::print(R"({{"tokens_a_text": {:.1f}, "plain": {:.1f}, "embed": {:.1f}, "throughput": {:.1f}, "ratio": {:.3f}}})"
             "\n",
             static_cast<double>(tokens) / static_cast<double>(texts.size()), median(plain_rates), median(embed_rates),
             median(throughput_rates), median(embed_rates) / median(plain_rates));
  return 0;
}

}  // namespace
}  // namespace gpux::bench

int main(int argc, char** argv) {
  try {
    return gpux::bench::measure(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_embed: %s\n", error.what());
    return 2;
  }
}
