#include <algorithm>
#include <chrono>
#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/encoder_flags.h"
#include "cli/print_json.h"
#include "cli/progress.h"
#include "embedding/embed_all.h"
#include "embedding/text_source.h"
#include "embedding/vector_file.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

struct EmbedFlags {
  EncoderFlags encoder;
  std::string output, encoding = "float";
  embedding::TextForm form;
  ModelArgument words;
  std::vector<std::string> texts;  ///< the words without the model
  unsigned workers = 0;
  bool resume = false;
};

// What vectors depend on beside the ONNX file.
Json run_of(const EmbedFlags& flags, const OpenEncoder& encoder) {
  const importer::SentenceModel& model = encoder.embedder->encoder().model();
  Json run{{"tokenizer", "sha256:" + sha256_of_file(model.tokenizer_file)},
           {"prompt", encoder.options.prompt.value_or(model.default_prompt)},
           {"max_tokens", encoder.options.max_tokens},
           {"normalize", nullptr},
           {"batching", flags.encoder.batching.empty() ? "exact" : flags.encoder.batching},
           {"texts", flags.texts},
           {"field", flags.form.field},
           {"column", flags.form.column}};
  if (encoder.options.normalize) run["normalize"] = *encoder.options.normalize;
  return run;
}

// Those whose vectors are there already.
void pass_over(std::uint64_t count, const embedding::TextSource& texts, const std::string& output) {
  std::string text;
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    if (texts(text)) continue;
    throw Error(ErrorCode::invalid_input, fmt::format("--resume: '{}.part' has {}; the input has {}", output,
                                                      counted(count, "vector"), counted(passed, "text")));
  }
}

void embed_texts(EmbedFlags& flags, Context& context) {
  if (context.table) throw Error(ErrorCode::usage, "--table: embed prints its vectors as JSON lines");
  flags.texts = place_model(flags.words, flags.encoder);
  if (asks_for_nothing(flags.encoder)) {
    say(context, "level none: no vectors are computed");
    return;
  }
  embedding::VectorTarget target = embedding::vector_target(flags.output, flags.encoding, flags.resume);
  const embedding::Texts texts = embedding::texts_of(flags.texts, flags.form);
  const OpenEncoder encoder = open_encoder(flags.encoder, context);

  embedding::VectorWriter writer(std::move(target),
                                 {.model = encoder.embedder->encoder().model().name,
                                  .level = encoder.level,
                                  .digest = encoder.digest,
                                  .dimension = encoder.dimension,
                                  .run = run_of(flags, encoder)},
                                 print_data);
  pass_over(writer.kept(), texts.next, flags.output);
  const auto start = std::chrono::steady_clock::now();
  const unsigned workers = flags.workers != 0 ? flags.workers : encoder.workers;
  std::optional<Progress> progress;
  // Vectors on the same terminal show it themselves.
  if (!flags.output.empty() || ::isatty(STDOUT_FILENO) == 0) progress.emplace(context, "texts", texts.share_read);
  std::uint64_t done = 0;
  const auto keep = [&](std::string_view text, std::span<const float> vector) {
    writer.add(text, vector);
    if (progress) progress->show(++done);
  };
  const std::uint64_t count =
      embedding::embed_all(*encoder.embedder, encoder.options, texts.next, workers, keep, writer.kept());
  progress.reset();
  writer.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string kept = writer.kept() == 0 ? "" : fmt::format(" behind {} that were there", writer.kept());
  say(context, fmt::format("embedded {}{} in {:.2f} s: {:.1f} texts/s", counted(count, "text"), kept, seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9)));
  if (!flags.output.empty()) say(context, fmt::format("wrote {}", flags.output));
}

}  // namespace

void add_embed(CLI::App& program, Context& context) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* command = add_command(program, context, "embed", "Turn texts into vectors, as JSON lines");
  command->get_option("--table")->group("");
  command->add_option("MODEL", flags->words.first,
                      "the model, unless -m or --level names it: then it is the first TEXT");
  add_words(*command, "TEXT", flags->words.rest, "texts; @FILE: each line of a file; -: of standard input (default)");
  add_encoder_flags(*command, flags->encoder);
  command->add_flag_function(
      "--normalize,!--no-normalize", [flags](std::int64_t count) { flags->encoder.normalize = count > 0; },
      "to length 1 (default: with --dimensions yes, else as the model's folder specifies)");
  command->add_option(
      "-o,--output", flags->output,
      "write to FILE.{jsonl,npy,f32,vec}, or one .vec per text to FOLDER/, instead of printing JSON lines");
  command->add_option("--encoding", flags->encoding, "encoding of the vectors: float, int8, binary, base64")
      ->check(CLI::IsMember({"float", "int8", "binary", "base64"}));
  command->add_flag("--resume", flags->resume, "resume an interrupted call that wrote to -o FILE.{jsonl,npy,f32}");
  CLI::Option* field =
      command->add_option("--field", flags->form.field, "lines are JSON objects, and the text is in this field");
  command->add_option("--column", flags->form.column, "files are CSV with a header, and the text is in this column")
      ->excludes(field);
  command->add_option("--workers", flags->workers, "texts embedded in parallel (default: processors of this process)")
      ->check(CLI::Range(1U, 1024U));
  command->footer(
      "Examples:\n"
      "  gpux embed all-MiniLM-L6-v2 'a sentence' 'and another'\n"
      "  gpux embed all-MiniLM-L6-v2 --field text @items.jsonl -o vectors.npy --resume");
  command->callback([flags, &context] { embed_texts(*flags, context); });
}

}  // namespace gpux::cli
