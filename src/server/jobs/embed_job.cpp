#include "server/jobs/embed_job.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

// A text as it is read; of tokens, what they spell without the special ones.
std::string text_of(const TextInput& input, const text::Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<TokenIds>(&input)) return tokenizer.decode(*ids);
  return std::get<std::string>(input);
}

using Clock = std::chrono::steady_clock;
using Answer = EmbedJobOptions::Answer;
using embedding::Representation;

// What a number takes in an answer: "-0.01234567,".
constexpr std::uint64_t json_bytes_per_number = 13;
// {"index":12345,"value":0.01234567},
constexpr std::uint64_t json_bytes_per_weight = 36;

// What the runs of a job have in common.
struct Embedding {
  std::vector<TextInput> texts;
  EmbedJobOptions options;
  std::shared_ptr<const embedding::SentenceEncoder> encoder;
  std::vector<embedding::PreparedText> prepared;
  std::atomic<std::uint64_t> answer_bytes = 0;

  std::mutex mutex;
  EmbedJobResult result;

  [[nodiscard]] std::uint64_t cost(std::size_t index) const {
    const auto* text = std::get_if<std::string>(&texts[index]);
    if (text != nullptr) return std::min(text->size(), max_text_bytes) * tokenizer_bytes_per_byte;
    constexpr std::uint64_t decoding_bytes_per_token = 100;
    return std::get<TokenIds>(texts[index]).size() * decoding_bytes_per_token;
  }

  [[nodiscard]] bool uses_token_output() const {
    return options.answer == Answer::token_vectors && !encoder->represents(Representation::multi_vector);
  }

  [[nodiscard]] embedding::EmbedOptions options_of(std::size_t index) const {
    embedding::EmbedOptions of_text = options.embed;
    if (index < options.queries) of_text.role = embedding::TextRole::query;
    return of_text;
  }

  // Of the vectors as they go out; the vectors of tokens by the text's bytes.
  [[nodiscard]] std::uint64_t estimated_answer() const {
    std::uint64_t rows = texts.size();
    if (options.answer == Answer::sparse_vectors) {
      constexpr std::uint64_t usual_weights = 256;
      return rows * usual_weights * json_bytes_per_weight;
    }
    if (options.answer == Answer::token_vectors || options.embed.representation == Representation::multi_vector) {
      rows = 0;
      for (const TextInput& text : texts) {
        const auto* ids = std::get_if<TokenIds>(&text);
        rows += encoder->max_tokens_of(ids != nullptr ? 2 * ids->size() : std::get<std::string>(text).size(),
                                       options.embed);
      }
    }
    return rows * encoder->dimension(options.embed) * json_bytes_per_number;
  }

  NamedValues prepare(std::size_t index) {
    const auto begun = Clock::now();
    const std::string text = text_of(texts[index], encoder->tokenizer());
    prepared[index] = encoder->prepare(text, options_of(index));
    NamedValues inputs = std::move(prepared[index].inputs);
    const auto tokenization = Clock::now() - begun;
    const std::size_t characters = count_characters(text);
    options.request.add_tokens(prepared[index].tokens);
    const std::lock_guard lock(mutex);
    ++result.figures.texts;
    result.figures.characters += characters;
    result.figures.tokens += prepared[index].tokens;
    result.figures.tokenization += tokenization;
    return inputs;
  }

  void append_representation(std::string& json, const embedding::Embedding& embedding) const {
    if (options.answer == Answer::token_vectors) {
      const auto rows = static_cast<std::int64_t>(embedding.rows);
      const auto width = static_cast<std::int64_t>(encoder->dimension(options.embed));
      append_json(json, Tensor::of<float>({rows, width}, embedding.values));
      return;
    }
    json += '[';
    for (std::size_t i = 0; i < embedding.indices.size(); ++i) {
      if (i != 0) json += ',';
      json += fmt::format(R"({{"index":{},"value":)", embedding.indices[i]);
      append_json(json, Tensor::of<float>({}, std::span(&embedding.values[i], 1)));
      if (options.token_names) {
        json += R"(,"token":)";
        append_json_string(json, encoder->tokenizer().token(embedding.indices[i]).value_or(""));
      }
      json += '}';
    }
    json += ']';
  }

  // Bytes beyond the estimate.
  std::uint64_t take(std::size_t index, const NamedValues& outputs) {
    std::uint64_t bytes = 0;
    const Value& output = outputs.front().second;
    if (options.answer == Answer::vectors) {
      result.vectors[index] = encoder->finish(prepared[index], output, options.embed);
      bytes = result.vectors[index].size() * json_bytes_per_number;
    } else if (options.answer == Answer::representations) {
      result.representations[index] = encoder->represent(prepared[index], output, options_of(index));
      bytes = result.representations[index].values.size() * sizeof(float);
    } else {
      std::string& json = result.json[index];
      if (uses_token_output()) {
        append_json(json, encoder->token_vectors(prepared[index], output));
      } else {
        append_representation(json, encoder->represent(prepared[index], output, options_of(index)));
      }
      json.shrink_to_fit();
      bytes = json.size();
    }
    const std::uint64_t before = answer_bytes.fetch_add(bytes);
    const std::uint64_t estimated = result.memory->bytes();
    return std::max(before + bytes, estimated) - std::max(before, estimated);
  }
};

}  // namespace

std::shared_ptr<RunJob> make_embed_job(const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts,
                                       EmbedJobOptions options,
                                       std::function<void(const std::optional<Error>&, EmbedJobResult&)> done) {
  const auto state = std::make_shared<Embedding>();
  state->texts = std::move(texts);
  state->options = std::move(options);
  state->options.embed.max_text_bytes = max_text_bytes;
  state->encoder = model->encoder();
  if (state->options.answer == Answer::token_vectors && !state->uses_token_output()) {
    state->options.embed.representation = Representation::multi_vector;
  }
  state->prepared.resize(state->texts.size());
  state->result.memory = state->options.request.hold(state->estimated_answer(), "the answer");
  switch (state->options.answer) {
    case Answer::vectors:
      state->result.vectors.resize(state->texts.size());
      break;
    case Answer::representations:
      state->result.representations.resize(state->texts.size());
      break;
    case Answer::token_vectors:
    case Answer::sparse_vectors:
      state->result.json.resize(state->texts.size());
      break;
  }
  const std::shared_ptr<ServedSession> session = session_of(model);
  const std::string output =
      state->uses_token_output() ? state->encoder->token_output() : state->encoder->output(state->options.embed);
  RunJob::Work work{
      .count = state->texts.size(),
      .item = "text",
      .prepare = [state](std::size_t index) { return state->prepare(index); },
      .cost = [state](std::size_t index) { return state->cost(index); },
      .take = [state](std::size_t index, NamedValues&& outputs) { return state->take(index, outputs); },
      .request = state->options.request,
      .run = {.outputs = output_indices({output}, session->signature()), .arrived = state->options.arrived}};
  return std::make_shared<RunJob>(
      session, std::move(work),
      [state, done = std::move(done)](const std::optional<Error>& error, const RunJob::Times& times) {
        state->result.figures.queue = times.queue;
        state->result.figures.inference = times.compute;
        done(error, state->result);
        // After an error other texts may still be taken: what they use is let go with them.
        if (!error) state->result.memory->release();
      });
}

}  // namespace gpux::server
