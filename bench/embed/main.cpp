// Texts a second: a plain ONNX Runtime loop over texts that are tokens already, a run each, and embed_all() from the
// texts on, with either batching, by turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "embed/plain_texts.h"
#include "embedding/embed_all.h"

namespace gpux::bench {
namespace {

struct Settings {
  std::string model, texts, provider = "cpu", precision;
  unsigned threads = 2;
  int rounds = 5;
  double seconds = 2;
};

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.empty()) throw std::runtime_error("there is no text in '" + file + "'");
  return lines;
}

double embedded_a_second(const embedding::Embedder& embedder, const std::vector<std::string>& texts,
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
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::string> texts = lines_of(settings.texts);
  importer::SentenceModel model = importer::read_sentence_model(settings.model);
  const std::filesystem::path onnx_file = model.onnx_file;
  LoadOptions load;
  load.provider = settings.provider;
  load.precision = settings.precision;
  load.strict = Strictness::provider;
  load.intra_threads = 1;
  const embedding::Embedder embedder(model, Runtime(onnx_file, load));
  const embedding::Embedder quicker(std::move(model), Runtime(onnx_file, load), embedding::Batching::throughput);
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
