// Texts a second of a text encoder on one provider. The texts are tokens already; only runs are timed. Commands come by
// lines on the standard input, so that several such programs can be asked by turns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "checkpoint/sentence_model.h"
#include "embedding/sentence_encoder.h"
#include "runtime/scheduling/batch.h"
#include "runtime/scheduling/padding.h"

namespace gpux::bench {
namespace {

struct Settings {
  std::string model, file, provider = "cpu", precision;
  unsigned threads = 2;
};

/// Inputs of a run, and how many texts they are.
struct Batch {
  NamedValues inputs;
  std::size_t texts = 0;
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : model_(checkpoint::read_sentence_model(settings.model)),
        runtime_(settings.file.empty() ? model_.onnx_file : std::filesystem::path(settings.file), options_of(settings)),
        encoder_(model_, runtime_) {}

  [[nodiscard]] std::string verdict() const {
    return fmt::format(R"({{"provider": "{}", "precision": "{}", "runtime": "{}"}})", runtime_.verdict().active.front(),
                       runtime_.verdict().precision, runtime_.verdict().runtime_version);
  }

  /// "tokens FILE": how many tokens the texts of the file have.
  [[nodiscard]] std::size_t tokens(const std::string& file) const {
    std::size_t all = 0;
    for (const embedding::PreparedText& text : prepared(file, false)) all += text.tokens;
    return all;
  }

  /// "FILE BATCH arrival|sorted SECONDS": so many texts of the file per run, as they come or by length. 0 seconds: all
  /// texts once, without a first run that is not timed.
  [[nodiscard]] double measure(const std::string& command) const {
    std::istringstream words(command);
    std::string file, order;
    std::size_t size = 0;
    double seconds = 0;
    if (!(words >> file >> size >> order >> seconds) || size == 0) throw std::runtime_error("'" + command + "'");
    const std::vector<Batch> batches = batches_of(prepared(file, order == "sorted"), size);
    if (seconds > 0) {
      for (std::size_t i = 0; i < std::min<std::size_t>(batches.size(), 4); ++i) run(batches[i]);
    }
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now(),
               end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    std::size_t texts = 0;
    // Whole rounds, so that each length counts as often as it is there.
    do {
      for (const Batch& batch : batches) {
        run(batch);
        texts += batch.texts;
      }
    } while (Clock::now() < end);
    return static_cast<double>(texts) / std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  static LoadOptions options_of(const Settings& settings) {
    LoadOptions options;
    options.provider = settings.provider;
    options.precision = settings.precision;
    options.intra_threads = settings.threads;
    options.strict = Strictness::provider;
    return options;
  }

  [[nodiscard]] std::vector<embedding::PreparedText> prepared(const std::string& file, bool is_sorted) const {
    std::ifstream stream(file);
    std::vector<embedding::PreparedText> texts;
    for (std::string line; std::getline(stream, line);) texts.push_back(encoder_.prepare(line, {}));
    if (texts.empty()) throw std::runtime_error("there is no text in '" + file + "'");
    if (is_sorted) std::ranges::stable_sort(texts, {}, &embedding::PreparedText::tokens);
    return texts;
  }

  [[nodiscard]] std::vector<Batch> batches_of(const std::vector<embedding::PreparedText>& texts,
                                              std::size_t size) const {
    std::vector<std::pair<std::string, std::string>> fill;
    for (const SignatureEntry& input : runtime_.info().signature.inputs) fill.emplace_back(input.name, "0");
    const runtime::Padding padding = runtime::read_padding(fill, runtime_.info().signature, "padding");
    std::vector<Batch> batches;
    for (std::size_t first = 0; first < texts.size(); first += size) {
      std::vector<NamedValues> items;
      runtime::BatchGroup group;
      for (std::size_t i = first; i < std::min(texts.size(), first + size); ++i) {
        group.items.push_back(items.size());
        group.rows.push_back(1);
        items.push_back(texts[i].inputs);
      }
      batches.push_back({runtime::concatenate(items, group, &padding), items.size()});
    }
    return batches;
  }

  void run(const Batch& batch) const {
    (void)runtime_.infer(batch.inputs, {.timeout = {}, .outputs = {encoder_.output({})}});
  }

  checkpoint::SentenceModel model_;
  Runtime runtime_;
  embedding::SentenceEncoder encoder_;
};

int serve(int argc, char** argv) {
  Settings settings;
  CLI::App app{
      "Prints the verdict, then texts/s for each line 'FILE BATCH arrival|sorted SECONDS', and the number of tokens "
      "for "
      "'tokens FILE'."};
  app.add_option("--model", settings.model, "A folder with tokenizer.json and model.onnx")->required();
  app.add_option("--file", settings.file, "Another ONNX file of the same model");
  app.add_option("--provider", settings.provider, "As of gpux");
  app.add_option("--precision", settings.precision, "As of gpux");
  app.add_option("--threads", settings.threads, "Inside an operator")->check(CLI::Range(1U, 1024U));
  CLI11_PARSE(app, argc, argv);
  const Bench bench(settings);
  fmt::print("{}\n", bench.verdict());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    constexpr std::string_view tokens = "tokens ";
    if (line.starts_with(tokens)) {
      fmt::print("{}\n", bench.tokens(line.substr(tokens.size())));
    } else {
      fmt::print("{:.4f}\n", bench.measure(line));
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gpux::bench

int main(int argc, char** argv) {
  try {
    return gpux::bench::serve(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_encoder: %s\n", error.what());
    return 2;
  }
}
