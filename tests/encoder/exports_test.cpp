// Text encoders as the field's exporters write them (scripts/references/encoder-exports), and such with something
// changed: each is claimed and has the CPU's answers, or it is left alone and the reason is reported.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "encoder/exported_graph.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using test::ExportedGraph;
using testing::HasSubstr;

constexpr std::int64_t vocabulary = 120, padding = 1;

/// Ids, mask and types.
struct Batch {
  std::string what;
  std::int64_t texts = 0, length = 0;
  std::vector<std::int64_t> ids, mask, types;
};

Batch batch_of(const std::string& what, std::int64_t texts, std::int64_t length, std::mt19937_64& random) {
  Batch batch{what, texts, length, {}, {}, {}};
  for (std::int64_t text = 0; text < texts; ++text) {
    const std::int64_t tokens = std::max<std::int64_t>(1, length - text * 4 % length);
    for (std::int64_t place = 0; place < length; ++place) {
      bool counts = true;
      if (what == "right") counts = place < tokens;
      if (what == "left") counts = place >= length - tokens;
      if (what == "holed") counts = place == length / 2 || random() % 5 < 3;
      if (what == "none") counts = text != 0 && place < tokens;
      const auto id = static_cast<std::int64_t>(2 + random() % static_cast<std::uint64_t>(vocabulary - 2));
      batch.ids.push_back(counts || what == "holed" ? id : padding);
      batch.mask.push_back(counts ? 1 : 0);
      batch.types.push_back(static_cast<std::int64_t>(random() % 2));
    }
  }
  return batch;
}

template <typename Element>
Tensor tensor_of(const std::vector<std::int64_t>& values, const Batch& batch) {
  Tensor tensor = Tensor::allocate(element_type_of<Element>::value, {batch.texts, batch.length});
  auto* to = reinterpret_cast<Element*>(tensor.mutable_bytes().data());
  for (const std::int64_t value : values) *to++ = static_cast<Element>(value);
  return tensor;
}

NamedValues inputs_of(const ModelInfo& info, const Batch& batch) {
  NamedValues inputs;
  for (const SignatureEntry& entry : info.signature.inputs) {
    const std::vector<std::int64_t>& values = entry.name == "input_ids"        ? batch.ids
                                              : entry.name == "attention_mask" ? batch.mask
                                                                               : batch.types;
    const bool is_narrow = entry.type.element == ElementType::int32;
    inputs.emplace_back(entry.name,
                        is_narrow ? tensor_of<std::int32_t>(values, batch) : tensor_of<std::int64_t>(values, batch));
  }
  return inputs;
}

/// How far answers are from those expected.
struct Distance {
  double largest = 0;       ///< of an element, in parts of the largest one where that is above 1
  double least_cosine = 1;  ///< of a row
  bool same_shape = true;
};

void measure(const Tensor& got, const Tensor& expected, Distance& distance) {
  if (got.shape() != expected.shape() || got.type() != ElementType::float32) {
    distance.same_shape = got.shape() == expected.shape() && got.type() == expected.type();
    return;
  }
  const auto count = static_cast<std::size_t>(element_count(got.shape()));
  const auto* a = reinterpret_cast<const float*>(got.bytes().data());
  const auto* b = reinterpret_cast<const float*>(expected.bytes().data());
  double top = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(b[i])) top = std::max(top, std::abs(static_cast<double>(b[i])));
  }
  const auto width = static_cast<std::size_t>(got.shape().empty() ? 1 : got.shape().back());
  for (std::size_t row = 0; width != 0 && row < count; row += width) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
        if (!std::isfinite(a[i])) continue;
      } else {
        const double far = std::abs(static_cast<double>(a[i]) - b[i]) / top;
        distance.largest = std::isnan(far) ? INFINITY : std::max(distance.largest, far);
      }
      ab += static_cast<double>(a[i]) * b[i];
      aa += static_cast<double>(a[i]) * a[i];
      bb += static_cast<double>(b[i]) * b[i];
    }
    if (aa > 0 && bb > 0 && width > 1) {
      distance.least_cosine = std::min(distance.least_cosine, ab / std::sqrt(aa * bb));
    }
  }
}

class Exports : public testing::Test {
 protected:
  static constexpr const char* graphs = GPUX_SOURCE_DIR "/tests/encoder/graphs";

  void SetUp() override { test::write_weights(folder_.path()); }

  static LoadOptions options_for(const std::string& provider, Optimization optimization) {
    LoadOptions options;
    options.provider = provider;
    options.optimization = optimization;
    options.intra_threads = 1;
    return options;
  }

  static bool is_claimed(const Runtime& runtime) {
    const auto& active = runtime.verdict().active;
    return std::ranges::find(active, "encoder") != active.end();
  }

  static std::string reason_of(const Runtime& runtime) {
    for (const ProviderAttempt& attempt : runtime.verdict().tried) {
      if (attempt.id == "encoder") return attempt.reason;
    }
    return {};
  }

  static std::vector<Batch> batches(const ModelInfo& info, const std::vector<std::string>& kinds) {
    std::mt19937_64 random(3);
    const auto& shape = info.signature.inputs.front().type.dimensions;
    const bool is_fixed = shape && (*shape)[0].size && (*shape)[1].size;
    std::vector<Batch> all;
    for (const std::string& kind : kinds) {
      if (is_fixed) {
        all.push_back(batch_of(kind, *(*shape)[0].size, *(*shape)[1].size, random));
      } else {
        all.push_back(batch_of(kind, 3, 9, random));
        if (kind == "right" || kind == "holed") all.push_back(batch_of(kind, 2, 41, random));
      }
    }
    return all;
  }

  static Distance distance_of(const Runtime& got, const Runtime& expected, const ModelInfo& info,
                              const std::vector<std::string>& kinds) {
    Distance distance;
    for (const Batch& batch : batches(info, kinds)) {
      const NamedValues inputs = inputs_of(info, batch);
      const NamedValues right = expected.infer(inputs, {}), ours = got.infer(inputs, {});
      for (std::size_t i = 0; i < right.size(); ++i)
        measure(*ours[i].second.tensor(), *right[i].second.tensor(), distance);
    }
    return distance;
  }

  test::TemporaryFolder folder_;
};

// What is not claimed, and why. All others are, by one node.
const std::map<std::string, std::string> refused{
    {"bert.torchscript.relative-key", "Einsum"},
    {"bert.dynamo.relative-key", "Einsum"},
    {"others.torchscript.bert-hidden-states", "inside the encoder"},
    {"others.dynamo.bert-hidden-states", "inside the encoder"},
    {"others.torchscript-2.15.bert-hidden-states", "inside the encoder"},
    {"others.dynamo-2.15.bert-hidden-states", "inside the encoder"},
    // The index of the last token is computed from a size that is inside the encoder.
    {"qwen3.dynamo.classifier", "inside the encoder"},
};

// Without ONNX Runtime's optimizations, DeBERTa's relative embeddings are normalised and projected in the graph.
bool is_refused_if_not_optimized(const std::string& name) {
  return name.starts_with("deberta.");
}

struct Family {
  const char* name;
  std::size_t graphs;

  friend std::ostream& operator<<(std::ostream& to, const Family& family) { return to << family.name; }
};

class OfAFamily : public Exports, public testing::WithParamInterface<Family> {};

TEST_P(OfAFamily, AreClaimedWithTheAnswersOfTheCpuOrRefusedWithTheReason) {
  std::size_t count = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(graphs)) {
    if (entry.path().filename().string().starts_with(std::string(GetParam().name) + ".")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string name = file.stem().stem();
    SCOPED_TRACE(name);
    ++count;
    const fs::path model = folder_.write("model.onnx", ExportedGraph::read(file).bytes());
    const ModelInfo info = ModelInspector::inspect(model);
    const Runtime cpu(model, options_for("cpu", Optimization::all));
    // As the file has it, and as ONNX Runtime's basic optimizations make it.
    for (const Optimization optimization : {Optimization::disabled, Optimization::all}) {
      const Runtime encoder(model, options_for("encoder", optimization));
      if (const auto row = refused.find(name); row != refused.end()) {
        EXPECT_FALSE(is_claimed(encoder));
        EXPECT_THAT(reason_of(encoder), HasSubstr(row->second));
        continue;
      }
      if (optimization == Optimization::disabled && is_refused_if_not_optimized(name)) {
        EXPECT_FALSE(is_claimed(encoder));
        EXPECT_THAT(reason_of(encoder), HasSubstr("over constants, which only ONNX Runtime's graph optimizations"));
        continue;
      }
      EXPECT_TRUE(is_claimed(encoder)) << reason_of(encoder);
      if (!is_claimed(encoder)) continue;
      const Distance distance = distance_of(encoder, cpu, info, {"full", "right", "left", "holed", "none"});
      EXPECT_TRUE(distance.same_shape);
      EXPECT_LT(distance.largest, 1e-4);
      EXPECT_GT(distance.least_cosine, 0.999999);
    }
  }
  EXPECT_EQ(count, GetParam().graphs);
}

// What each family has of them.
INSTANTIATE_TEST_SUITE_P(Exports, OfAFamily,
                         testing::Values(Family{"bert", 101}, Family{"roberta", 71}, Family{"xlm-roberta", 47},
                                         Family{"distilbert", 67}, Family{"mpnet", 56}, Family{"electra", 12},
                                         Family{"modernbert", 10}, Family{"nomic-bert", 10}, Family{"gte", 10},
                                         Family{"deberta", 9}, Family{"qwen3", 10}, Family{"others", 56}),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::erase(name, '-');
                           return name;
                         });

// GPUX_ENCODER_MUTANTS: how many are tried; GPUX_ENCODER_SEED: which.
std::size_t from_environment(const char* name, std::size_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::stoul(given);
}

TEST_F(Exports, ThatAreChangedAreClaimedWithTheAnswersOfTheCpuOrNotClaimed) {
  const std::size_t wanted = from_environment("GPUX_ENCODER_MUTANTS", 100);
  std::mt19937_64 random(from_environment("GPUX_ENCODER_SEED", 1));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(graphs)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::size_t invalid = 0, claimed = 0, left_alone = 0, wrong = 0, told = 0;
  while (claimed + left_alone < wanted) {
    const fs::path& file = files[random() % files.size()];
    ExportedGraph graph = ExportedGraph::read(file);
    const bool is_renamed = random() % 4 == 0;
    if (is_renamed) rename_and_reorder(graph, random);
    std::string change = mutate(graph, random);
    if (change.empty()) continue;
    if (random() % 4 == 0) change += ", " + mutate(graph, random);
    const Optimization optimization = random() % 2 == 0 ? Optimization::disabled : Optimization::all;
    const fs::path model = folder_.write("model.onnx", graph.bytes());
    try {
      const ModelInfo info = ModelInspector::inspect(model);
      const Runtime cpu(model, options_for("cpu", optimization));
      // What the CPU cannot run is no model.
      (void)cpu.infer(inputs_of(info, batches(info, {"right"}).front()), {});
      const Runtime encoder(model, options_for("encoder", optimization));
      if (!is_claimed(encoder)) {
        ++left_alone;
        EXPECT_FALSE(reason_of(encoder).empty());
        continue;
      }
      ++claimed;
      Distance distance;
      try {
        distance = distance_of(encoder, cpu, info, {"full", "right", "left", "holed"});
      } catch (const Error&) {
        ++told;  // such as ids that count from the end: an error is no answer
        continue;
      }
      if (distance.same_shape && distance.largest < 1e-3 && distance.least_cosine > 0.99999) continue;
      ++wrong;
      ADD_FAILURE() << file.filename() << (is_renamed ? ", renamed" : "") << ", " << change << ": " << distance.largest
                    << ", cosine " << distance.least_cosine;
    } catch (const Error&) {
      ++invalid;
    }
  }
  std::printf(
      "%zu mutants: %zu claimed with the CPU's answers, %zu claimed and refused in a run, %zu left alone, %zu "
      "wrong; %zu more were no models\n",
      claimed + left_alone, claimed - wrong - told, told, left_alone, wrong, invalid);
  EXPECT_EQ(wrong, 0U);
}

// Names and order mean nothing.
TEST_F(Exports, AreClaimedByOtherNamesInAnotherOrder) {
  std::mt19937_64 random(5);
  for (const char* name : {"bert.torchscript.sdpa.opset14", "roberta.dynamo.eager.opset20", "mpnet.torchscript.mean",
                           "distilbert.optimum.features", "bert.ort-optimizer", "xlm-roberta.sentence-transformers"}) {
    SCOPED_TRACE(name);
    ExportedGraph graph = ExportedGraph::read(fs::path(graphs) / (std::string(name) + ".onnx.gz"));
    rename_and_reorder(graph, random);
    const fs::path model = folder_.write("model.onnx", graph.bytes());
    const ModelInfo info = ModelInspector::inspect(model);
    const Runtime encoder(model, options_for("encoder", Optimization::all));
    ASSERT_TRUE(is_claimed(encoder)) << reason_of(encoder);
    const Distance distance =
        distance_of(encoder, Runtime(model, options_for("cpu", Optimization::all)), info, {"right", "holed"});
    EXPECT_LT(distance.largest, 1e-4);
  }
}

}  // namespace
}  // namespace gpux
