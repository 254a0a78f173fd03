// The provider in ONNX Runtime: what it claims, and that the answers are those of the CPU.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/sentence_model.h"
#include "embedding/embed_all.h"
#include "embedding/embedder.h"
#include "embedding/sentence_encoder.h"
#include "embedding/text_batching.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "importer/import_model.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> texts{"A cat sits on the mat.", "Wind.", "The provider says what it does, and does it",
                                     "numbers 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 and so on and on"};

class EncoderProvider : public testing::Test {
 protected:
  // Of sentence-transformers' folders with random weights.
  [[nodiscard]] fs::path imported(const std::string& name) const {
    const fs::path made = folder_.path() / name;
    (void)importer::import_model(fs::path(GPUX_SOURCE_DIR "/tests/embedding/references") / name, made);
    return made;
  }

  [[nodiscard]] static Runtime load(const fs::path& folder, const std::string& provider,
                                    const std::string& precision = "") {
    LoadOptions options;
    options.provider = provider;
    options.precision = precision;
    return Runtime(folder / "model.onnx", options);
  }

  [[nodiscard]] static std::vector<std::vector<float>> vectors(const fs::path& folder, const Runtime& runtime) {
    const embedding::SentenceEncoder encoder(checkpoint::read_sentence_model(folder), runtime);
    std::vector<std::vector<float>> all;
    for (const std::string& text : texts) {
      const embedding::PreparedText prepared = encoder.prepare(text, {});
      const NamedValues got = runtime.infer(prepared.inputs, {.timeout = {}, .outputs = {encoder.output({})}});
      all.push_back(encoder.finish(prepared, got.front().second, {}));
    }
    return all;
  }

  static void expect_near(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& expected,
                          double least_cosine) {
    for (std::size_t text = 0; text < expected.size(); ++text) {
      double ab = 0, aa = 0, bb = 0;
      for (std::size_t i = 0; i < expected[text].size(); ++i) {
        ab += static_cast<double>(got[text][i]) * expected[text][i];
        aa += static_cast<double>(got[text][i]) * got[text][i];
        bb += static_cast<double>(expected[text][i]) * expected[text][i];
      }
      EXPECT_GT(ab / std::sqrt(aa * bb), least_cosine) << texts[text];
    }
  }

  test::TemporaryFolder folder_;
};

class EveryFamily : public EncoderProvider, public testing::WithParamInterface<const char*> {};

TEST_P(EveryFamily, IsClaimedAndAnswersAsOnTheCpu) {
  const fs::path folder = imported(GetParam());
  const auto expected = vectors(folder, load(folder, "cpu"));
  for (const auto& [precision, least] : std::vector<std::pair<std::string, double>>{
           {"fp32", 0.999999}, {"bf16", 0.999}, {"int8", 0.99}, {"int8-bf16", 0.99}}) {
    const Runtime runtime = load(folder, "encoder", precision);
    EXPECT_EQ(runtime.verdict().active.front(), "encoder");
    EXPECT_EQ(runtime.verdict().precision, precision);
    expect_near(vectors(folder, runtime), expected, least);
  }
}

// Ids and masks are filled up; what is computed is not.
TEST_P(EveryFamily, HasTheSameBitsInAnyCompany) {
  const fs::path folder = imported(GetParam());
  for (const char* precision : {"fp32", "bf16", "int8", "int8-bf16"}) {
    SCOPED_TRACE(precision);
    const Runtime runtime = load(folder, "encoder", precision);
    const embedding::SentenceEncoder encoder(checkpoint::read_sentence_model(folder), runtime);
    std::vector<embedding::PreparedText> prepared;
    std::size_t longest = 0;
    for (const std::string& text : texts) {
      prepared.push_back(encoder.prepare(text, {}));
      longest = std::max(longest, prepared.back().tokens);
    }
    NamedValues together;
    for (const auto& [name, first] : prepared.front().inputs) {
      const auto padding = name == "input_ids" ? std::int64_t{1} : std::int64_t{0};
      Tensor filled = Tensor::allocate(ElementType::int64,
                                       {static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(longest)});
      auto* to = reinterpret_cast<std::int64_t*>(filled.mutable_bytes().data());
      for (const embedding::PreparedText& text : prepared) {
        const Tensor& own = *find(text.inputs, name)->tensor();
        const auto* from = reinterpret_cast<const std::int64_t*>(own.bytes().data());
        std::fill(std::copy_n(from, text.tokens, to), to + longest, padding);
        to += longest;
      }
      together.emplace_back(name, std::move(filled));
    }
    const InferOptions options{.timeout = {}, .outputs = {encoder.output({})}};
    const NamedValues all = runtime.infer(together, options);
    const std::span<const std::byte> bytes = all.front().second.tensor()->bytes();
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      const NamedValues alone = runtime.infer(prepared[i].inputs, options);
      const std::span<const std::byte> own = alone.front().second.tensor()->bytes();
      // Vectors lie behind one another; hidden states are as many as there are places.
      const std::size_t stride = bytes.size() / prepared.size();
      EXPECT_TRUE(std::ranges::equal(own, bytes.subspan(i * stride, own.size()))) << texts[i];
    }
  }
}

constexpr std::int64_t vocabulary = 1500, positions = 130;

Tensor tensor_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>(shape, values);
}

/// Ids, masks and types of `texts` x `length`, for the inputs that a model has.
NamedValues random_inputs(const Runtime& runtime, std::int64_t texts, std::int64_t length, std::mt19937_64& random) {
  const auto count = static_cast<std::size_t>(texts * length);
  std::vector<std::int64_t> ids(count), mask(count), types(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocabulary));
    types[i] = static_cast<std::int64_t>(random() % 2);
  }
  const bool has_none = random() % 4 == 0;
  for (std::int64_t text = 0; text < texts && !has_none; ++text) {
    const std::uint64_t kind = random() % 4;
    const auto tokens = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(length + 1));
    for (std::int64_t place = 0; place < length; ++place) {
      const bool counts = kind == 0 || (kind == 1 && place < tokens) || (kind == 2 && random() % 2 == 0);
      mask[static_cast<std::size_t>(text * length + place)] = counts ? 1 : 0;
    }
  }
  NamedValues inputs;
  for (const SignatureEntry& entry : runtime.info().signature.inputs) {
    const auto& values = entry.name == "input_ids" ? ids : entry.name == "attention_mask" ? mask : types;
    inputs.emplace_back(entry.name, tensor_of({texts, length}, values));
  }
  return inputs;
}

void expect_same(const NamedValues& got, const NamedValues& expected, double allowed) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t output = 0; output < got.size(); ++output) {
    const Tensor &ours = *got[output].second.tensor(), &right = *expected[output].second.tensor();
    ASSERT_EQ(ours.shape(), right.shape()) << got[output].first;
    const auto values = ours.as<float>(), wanted = right.as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(wanted[i])) {
        ASSERT_TRUE(std::isnan(values[i])) << got[output].first << " " << i;
      } else {
        ASSERT_LE(std::abs(static_cast<double>(values[i]) - wanted[i]), allowed) << got[output].first << " " << i;
      }
    }
  }
}

// Texts of which no token counts, no tokens, no texts, more texts than a chunk takes; all outputs, or one. Where no
// token counts, a mask of -30000 leaves two digits of a score, whatever computes it.
TEST_P(EveryFamily, AnswersBatchesOfAnySizeAndMaskAsTheCpuDoes) {
  const fs::path folder = imported(GetParam());
  const Runtime cpu = load(folder, "cpu");
  for (const auto& [precision, allowed] :
       std::vector<std::pair<std::string, double>>{{"fp32", 1e-2}, {"bf16", 0.1}, {"int8", 0.5}, {"int8-bf16", 0.5}}) {
    SCOPED_TRACE(precision);
    std::mt19937_64 random(20261123);
    for (const std::size_t threads : {1, 2, 3}) {
      LoadOptions options;
      options.provider = "encoder";
      options.precision = precision;
      options.intra_threads = threads;
      const Runtime encoder(folder / "model.onnx", options);
      ASSERT_THAT(encoder.verdict().active, Contains("encoder"));
      for (int run = 0; run < 40; ++run) {
        const auto texts_count = static_cast<std::int64_t>(run == 0 ? 40 : random() % 6);
        const auto length = static_cast<std::int64_t>(run == 1 ? 0 : random() % 20);
        const NamedValues inputs = random_inputs(cpu, texts_count, length, random);
        InferOptions wanted;
        const auto& outputs = cpu.info().signature.outputs;
        if (random() % 2 == 0) wanted.outputs = {outputs[random() % outputs.size()].name};
        std::optional<NamedValues> expected;
        try {
          expected = cpu.infer(inputs, wanted);
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
          ASSERT_EQ(texts_count * length, 0) << error.message();
        }
        SCOPED_TRACE(testing::Message() << texts_count << " x " << length);
        if (expected) {
          expect_same(encoder.infer(inputs, wanted), *expected, allowed);
        } else {
          // What the CPU cannot answer is refused, or answered: never a failure of the provider.
          try {
            (void)encoder.infer(inputs, wanted);
          } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
          }
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The caller's fault on the CPU is the caller's fault here.
TEST_P(EveryFamily, RefusesInvalidInputsAsInvalidInputs) {
  const fs::path folder = imported(GetParam());
  const Runtime cpu = load(folder, "cpu"), encoder = load(folder, "encoder");

  struct Case {
    std::string input;
    std::int64_t length, value;
    std::string says;
    bool is_refused_by_cpu;
  };

  for (const Case& one :
       {Case{"input_ids", 5, vocabulary, "token id 1500 ", true},
        Case{"input_ids", 5, -vocabulary - 1, "token id -1501 ", true}, Case{"input_ids", 5, -1, "token id -1 ", false},
        Case{"attention_mask", 5, 2, "attention mask value 2 ", false},
        Case{"attention_mask", 5, -1, "attention mask value -1 ", false},
        Case{"token_type_ids", 5, 2, "token type 2 ", true},
        Case{"input_ids", positions + 20, 7, "a text of 150 tokens ", true}}) {
    SCOPED_TRACE(one.says);
    NamedValues inputs;
    bool has_input = false;
    for (const SignatureEntry& entry : cpu.info().signature.inputs) {
      std::vector<std::int64_t> values(static_cast<std::size_t>(one.length), entry.name == "input_ids" ? 7 : 1);
      if (entry.name == one.input) values[3] = one.value;
      has_input = has_input || entry.name == one.input;
      inputs.emplace_back(entry.name, tensor_of({1, one.length}, values));
    }
    if (!has_input) continue;
    const auto refusal_of = [&](const Runtime& runtime) -> std::optional<Error> {
      try {
        (void)runtime.infer(inputs);
      } catch (const Error& error) {
        return error;
      }
      return std::nullopt;
    };
    const std::optional<Error> ours = refusal_of(encoder), other = refusal_of(cpu);
    ASSERT_TRUE(ours);
    EXPECT_EQ(ours->code(), ErrorCode::invalid_input) << ours->message();
    EXPECT_THAT(ours->message(), AllOf(HasSubstr(one.says), HasSubstr("accepted: ")));
    // The graph of the last token gathers the row of the greatest mask * index: a value of 2 at index 3 is row 6 of 5,
    // which ONNX Runtime refuses. In the other graphs, a mask value of 2 changes the scores without an error.
    const bool is_index =
        GetParam() == std::string("xlm-roberta-last") && one.input == "attention_mask" && one.value > 1;
    EXPECT_EQ(other.has_value(), one.is_refused_by_cpu || is_index);
    if (other) {
      EXPECT_EQ(other->code(), ErrorCode::invalid_input) << other->message();
    }
  }
}

TEST_P(EveryFamily, RefusesAMaskOfAnotherShape) {
  const fs::path folder = imported(GetParam());
  const Runtime encoder = load(folder, "encoder");
  NamedValues inputs;
  for (const SignatureEntry& entry : encoder.info().signature.inputs) {
    const std::int64_t texts_count = entry.name == "attention_mask" ? 1 : 2;
    inputs.emplace_back(entry.name, tensor_of({texts_count, 4},
                                              std::vector<std::int64_t>(static_cast<std::size_t>(4 * texts_count), 1)));
  }
  try {
    (void)encoder.infer(inputs);
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
  }
}

INSTANTIATE_TEST_SUITE_P(EncoderProvider, EveryFamily,
                         testing::Values("bert-cls", "mpnet-mean", "xlm-roberta-last", "distilbert-dense"));

TEST_F(EncoderProvider, LeavesOtherModelsToTheCpu) {
  LoadOptions options;
  options.provider = "encoder";
  const Runtime runtime(fs::path(GPUX_SOURCE_DIR "/tests/models/matmul_chain.onnx"), options);
  EXPECT_THAT(runtime.verdict().active, ElementsAre("cpu"));
  options.strict = Strictness::provider;
  EXPECT_THROW(Runtime(fs::path(GPUX_SOURCE_DIR "/tests/models/matmul_chain.onnx"), options), Error);
}

TEST_F(EncoderProvider, LetsTextsOfAllLengthsShareRuns) {
  const fs::path folder = imported("bert-cls");
  for (const char* precision : {"fp32", "bf16", "int8", "int8-bf16"}) {
    const Runtime runtime = load(folder, "encoder", precision);
    const embedding::SentenceEncoder encoder(checkpoint::read_sentence_model(folder), runtime);
    const embedding::TextSharing batching = embedding::find_text_batching(encoder, runtime);
    EXPECT_GT(batching.limits.max_rows, 1) << precision;
    EXPECT_NE(batching.padding, nullptr) << precision;
  }
}

// From the text on: hundreds of texts of many lengths, on two threads, in two orders.
TEST_F(EncoderProvider, GivesTheSameBitsInSharedRunsOfAllLengths) {
  const fs::path folder = imported("mpnet-mean");
  std::vector<std::string> many;
  for (std::size_t i = 0; i < 300; ++i)
    many.push_back(texts[i % texts.size()] + std::string(i % 90, 'x') + " and more");
  for (const char* precision : {"fp32", "bf16", "int8", "int8-bf16"}) {
    SCOPED_TRACE(precision);
    const embedding::TextEmbedder embedder(checkpoint::read_sentence_model(folder), load(folder, "encoder", precision));
    EXPECT_NE(embedder.batching(true).padding, nullptr);
    const auto vectors_of = [&](const std::vector<std::string>& all) {
      std::vector<std::vector<float>> vectors;
      std::size_t next = 0;
      const auto source = [&](std::string& text) {
        if (next == all.size()) return false;
        text = all[next++];
        return true;
      };
      embedding::embed_all(embedder, {}, source, 2, [&](std::string_view, std::span<const float> vector) {
        vectors.emplace_back(vector.begin(), vector.end());
      });
      return vectors;
    };
    const std::vector<std::vector<float>> forward = vectors_of(many);
    std::vector<std::string> turned = many;
    std::ranges::reverse(turned);
    std::vector<std::vector<float>> backward = vectors_of(turned);
    std::ranges::reverse(backward);
    EXPECT_EQ(forward, backward);
    for (std::size_t i = 0; i < many.size(); i += 37) EXPECT_EQ(embedder.embed(many[i]), forward[i]) << many[i];
  }
}

// The work that this process has done, however slow the machine is.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One node is the whole model: ONNX Runtime by itself would stop behind it.
TEST_F(EncoderProvider, StopsInsideARunAndLeavesOthersAlone) {
  const fs::path folder = imported("bert-cls");
  const Runtime runtime = load(folder, "encoder");
  const embedding::SentenceEncoder encoder(checkpoint::read_sentence_model(folder), runtime);
  const embedding::PreparedText text = encoder.prepare(texts.back(), {});
  NamedValues large;
  for (const auto& [name, value] : text.inputs) {
    const auto row = value.tensor()->as<std::int64_t>();
    std::vector<std::int64_t> rows;
    for (int i = 0; i < 20'000; ++i) rows.insert(rows.end(), row.begin(), row.end());
    large.emplace_back(name, Tensor::of<std::int64_t>({20'000, static_cast<std::int64_t>(row.size())}, rows));
  }
  const std::vector<float> expected = vectors(folder, runtime).back();
  const double before = processor_seconds();
  (void)runtime.infer(large);
  const double whole = processor_seconds() - before;
  const auto stop_early = [&] {
    try {
      (void)runtime.infer(large, {.timeout = std::chrono::milliseconds(1), .outputs = {}});
      ADD_FAILURE() << "it ran to its end";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::deadline_exceeded);
    }
  };
  const double again = processor_seconds();
  stop_early();
  EXPECT_EQ(vectors(folder, runtime).back(), expected) << "behind the run that was stopped";
  EXPECT_LT(processor_seconds() - again, whole / 2);

  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done) EXPECT_EQ(vectors(folder, runtime).back(), expected);
  });
  stop_early();
  done = true;
}

// What nobody reads is not computed, and is there again for the next who does.
TEST_F(EncoderProvider, GivesHiddenStatesToThoseWhoReadThem) {
  const fs::path folder = imported("bert-cls");
  const Runtime runtime = load(folder, "encoder");
  const Runtime cpu = load(folder, "cpu");
  const embedding::SentenceEncoder encoder(checkpoint::read_sentence_model(folder), runtime);
  const NamedValues inputs = encoder.prepare(texts.front(), {}).inputs;
  const NamedValues expected = cpu.infer(inputs);
  ASSERT_EQ(expected.size(), 2U);
  const auto expect_all = [&](const NamedValues& got) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto values = got[i].second.tensor()->as<float>(), right = expected[i].second.tensor()->as<float>();
      ASSERT_EQ(values.size(), right.size());
      for (std::size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(values[k], right[k], 1e-4) << got[i].first;
    }
  };
  const NamedValues all = runtime.infer(inputs);
  expect_all(all);
  for (const auto& timeout :
       {std::optional<std::chrono::milliseconds>(), std::optional(std::chrono::milliseconds(60'000))}) {
    for (const auto& [name, value] : all) {
      const NamedValues one = runtime.infer(inputs, {.timeout = timeout, .outputs = {name}});
      ASSERT_EQ(one.size(), 1U);
      EXPECT_TRUE(std::ranges::equal(one.front().second.tensor()->bytes(), value.tensor()->bytes())) << name;
    }
    expect_all(runtime.infer(inputs, {.timeout = timeout, .outputs = {}}));
  }
}

// ONNX Runtime makes one thread less than the session has, as the caller computes, too; the provider makes none.
TEST_F(EncoderProvider, UsesTheThreadsOfItsSession) {
  const fs::path folder = imported("bert-cls");
  // By their ids: a thread that was joined may be listed for a moment.
  const auto list_threads = [] {
    std::set<std::string> ids;
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) ids.insert(entry.path().filename().string());
    return ids;
  };
  // Threads of the first session of a process stay.
  (void)load(folder, "encoder");
  for (const unsigned threads : {1U, 2U, 5U}) {
    LoadOptions options;
    options.provider = "encoder";
    options.intra_threads = threads;
    options.strict = Strictness::provider;
    const auto before = list_threads();
    const Runtime runtime(folder / "model.onnx", options);
    (void)vectors(folder, runtime);
    const auto is_new = [&](const std::string& id) { return !before.contains(id); };
    EXPECT_EQ(std::ranges::count_if(list_threads(), is_new), threads - 1);
  }
  // It is told how many there are.
  LoadOptions wrong;
  wrong.provider = "encoder";
  wrong.session_config = {{"gpux.threads", "none"}};
  EXPECT_THAT(to_line(Runtime(folder / "model.onnx", wrong).verdict()),
              HasSubstr("session configuration entry 'gpux.threads' is 'none'; accepted: 1 to 65536"));
}

TEST_F(EncoderProvider, RefusesAPrecisionThatItHasNot) {
  const fs::path folder = imported("bert-cls");
  LoadOptions options;
  options.provider = "encoder";
  options.precision = "fp16";
  options.strict = Strictness::provider;
  try {
    const Runtime runtime(folder / "model.onnx", options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("encoder computes in fp32, bf16, int8, int8-bf16, not in fp16"));
  }
}

// An attribute that is a type: ONNX Runtime's plugins cannot read it.
TEST_F(EncoderProvider, LeavesNodesAloneWhoseAttributesItCannotRead) {
  LoadOptions options;
  options.provider = "encoder,cpu";
  const Runtime runtime(fs::path(GPUX_SOURCE_DIR "/tests/models/optional_none.onnx"), options);
  const Verdict verdict = runtime.verdict();
  EXPECT_THAT(verdict.active, ElementsAre("cpu"));
  EXPECT_EQ(verdict.tried.front().outcome, ProviderAttempt::Outcome::no_nodes) << verdict.tried.front().reason;
}

// What was compiled is kept, and gives the same bits at the next start, without the model's own weights.
TEST_F(EncoderProvider, KeepsWhatItCompiled) {
  for (const char* name : {"bert-cls", "mpnet-mean"}) {
    const fs::path folder = imported(name);
    for (const char* precision : {"fp32", "bf16", "int8", "int8-bf16"}) {
      LoadOptions options;
      options.provider = "encoder";
      options.precision = precision;
      const fs::path kept = folder_.path() / (std::string(name) + precision);
      fs::create_directory(kept);
      options.optimized_model = kept / "model.onnx";
      const Runtime first(folder / "model.onnx", options);
      const OptimizedGraph& graph = first.written_graph();
      EXPECT_EQ(graph.provider, "encoder");
      EXPECT_EQ(graph.file, options.optimized_model);
      EXPECT_LT(fs::file_size(graph.file), 10'000U);

      options.optimized_graphs = {graph};
      options.optimized_model.clear();
      const Runtime second(folder / "model.onnx", options);
      EXPECT_THAT(second.verdict().notes, Contains(HasSubstr("when the package was built is used")));
      EXPECT_EQ(second.verdict().node_count, 1U);
      EXPECT_EQ(vectors(folder, second), vectors(folder, first)) << name << ' ' << precision;

      options.precision = precision == std::string("bf16") ? "fp32" : "bf16";
      EXPECT_THAT(Runtime(folder / "model.onnx", options).verdict().notes, Not(Contains(HasSubstr("is used"))));
    }
  }
}

TEST_F(EncoderProvider, IsCompiledAnewWhereWhatWasKeptIsOfNoUse) {
  const fs::path folder = imported("bert-cls"), kept = folder_.path() / "kept";
  fs::create_directory(kept);
  LoadOptions options;
  options.provider = "encoder";
  options.optimized_model = kept / "model.onnx";
  const Runtime first(folder / "model.onnx", options);
  options.optimized_graphs = {first.written_graph()};
  options.optimized_model.clear();
  const auto encoder_file = std::ranges::find_if(fs::directory_iterator(kept), fs::directory_iterator(),
                                                 [](const auto& e) { return e.path().extension() == ".encoder"; });
  ASSERT_NE(encoder_file, fs::directory_iterator());
  const auto expect_anew = [&](const std::string& why) {
    const Runtime again(folder / "model.onnx", options);
    EXPECT_THAT(again.verdict().notes, Contains(AllOf(HasSubstr("is not used: "), HasSubstr(why))));
    EXPECT_THAT(again.verdict().active, ElementsAre("encoder"));
    EXPECT_EQ(vectors(folder, again), vectors(folder, first));
  };
  // A hostile node: the ids' type made float, in their ValueInfoProto (name, type, tensor_type, elem_type).
  const std::string graph = read_file(kept / "model.onnx");
  std::string other = graph;
  const std::size_t ids = other.find("\x0a\x09input_ids\x12");
  ASSERT_NE(ids, std::string::npos);
  const std::size_t type = other.find("\x08\x07", ids);
  ASSERT_NE(type, std::string::npos);
  other[type + 1] = 1;
  write_file_atomically(kept / "model.onnx", other);
  expect_anew("takes something else than whole numbers for each token");
  write_file_atomically(kept / "model.onnx", graph);

  fs::resize_file(encoder_file->path(), fs::file_size(encoder_file->path()) / 2);
  expect_anew("it ends too early");
  fs::remove(encoder_file->path());
  expect_anew("cannot be opened: No such file");
}

}  // namespace
}  // namespace gpux
