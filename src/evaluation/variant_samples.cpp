#include "evaluation/variant_samples.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "embedding/recorded_texts.h"
#include "embedding/sentence_encoder.h"
#include "embedding/text_source.h"
#include "evaluation/data_sets.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "model/input_files.h"
#include "pipeline/pipeline.h"
#include "pipeline/text_settings.h"

namespace gpux::evaluation {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> given_texts(const std::string& file) {
  const embedding::Texts source = embedding::texts_of({"@" + file}, {});
  std::vector<std::string> texts;
  for (std::string text; source.next(text);) texts.push_back(text);
  return texts;
}

// A folder may have a tokenizer and a model that uses tokens differently.
std::unique_ptr<embedding::SentenceEncoder> encoder_of(const checkpoint::SentenceModel& model, const Runtime& runtime) {
  try {
    return std::make_unique<embedding::SentenceEncoder>(model, runtime);
  } catch (const Error& error) {
    throw error.within(format_message("{} PLACE gives other inputs than texts", setting_named("samples")));
  }
}

// What the model makes of a text, as numbers that can be compared by position: sparse vectors are spread out.
std::vector<float> vector_of(const embedding::SentenceEncoder& encoder, const embedding::PreparedText& text,
                             const Value& output) {
  embedding::Embedding made = encoder.represent(text, output, {});
  if (encoder.default_representation() != embedding::Representation::sparse) return std::move(made.values);
  std::vector<float> vector(encoder.dimension(), 0.0F);
  for (std::size_t i = 0; i < made.indices.size(); ++i) vector.at(made.indices[i]) = made.values[i];
  return vector;
}

/// Made of the first model that is asked, and true of all of them.
class PreparedTexts {
 public:
  PreparedTexts(std::vector<std::string> texts, checkpoint::SentenceModel model)
      : texts_(std::move(texts)), model_(std::move(model)) {}

  void prepare(const Runtime& runtime) {
    if (encoder) return;
    encoder = encoder_of(model_, runtime);
    for (const std::string& text : texts_) ready.push_back(encoder->prepare(text, {}));
  }

  [[nodiscard]] const embedding::PreparedText& middling() const {
    std::vector<const embedding::PreparedText*> by_length;
    for (const embedding::PreparedText& text : ready) by_length.push_back(&text);
    const auto middle = by_length.begin() + static_cast<std::ptrdiff_t>(by_length.size() / 2);
    std::ranges::nth_element(by_length, middle, {}, [](const auto* text) { return text->tokens; });
    return **middle;
  }

  std::unique_ptr<embedding::SentenceEncoder> encoder;  ///< null before prepare()
  std::vector<embedding::PreparedText> ready;

 private:
  std::vector<std::string> texts_;
  checkpoint::SentenceModel model_;
};

VariantSamples text_samples(const std::string& file, const checkpoint::SentenceModel& model) {
  std::vector<std::string> texts;
  if (file.empty()) {
    for (const std::string_view text : embedding::recorded_texts()) texts.emplace_back(text);
  } else {
    texts = given_texts(file);
  }
  if (texts.empty())
    throw Error(ErrorCode::invalid_input, format_message("{} '{}' holds no text", setting_named("texts"), file));
  std::string what = fmt::format("{} {}", texts.size(), file.empty() ? "recorded texts" : "texts");

  const auto prepared = std::make_shared<PreparedTexts>(std::move(texts), model);
  const auto ask = [prepared](const Runtime& runtime) {
    prepared->prepare(runtime);
    const InferOptions options{.timeout = {}, .outputs = {prepared->encoder->output({})}};
    Answers answers;
    for (const embedding::PreparedText& text : prepared->ready) {
      const NamedValues got = runtime.infer(text.inputs, options);
      const std::vector<float> vector = vector_of(*prepared->encoder, text, got.front().second);
      Tensor tensor = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(vector.size())});
      const auto bytes = std::as_bytes(std::span(vector));
      std::copy(bytes.begin(), bytes.end(), tensor.mutable_bytes().begin());
      answers.push_back({{"vector", std::move(tensor)}});
    }
    return answers;
  };
  const auto typical = [prepared](const Runtime& runtime) {
    prepared->prepare(runtime);
    return prepared->middling().inputs;
  };
  return {ask, std::move(what), typical};
}

VariantSamples samples_of(std::vector<NamedValues> given, std::string what) {
  const auto items = std::make_shared<const std::vector<NamedValues>>(std::move(given));
  const auto ask = [items](const Runtime& runtime) {
    Answers answers;
    for (const NamedValues& item : *items) answers.push_back(runtime.infer(item));
    return answers;
  };
  return {ask, std::move(what), [items](const Runtime&) { return (*items)[items->size() / 2]; }};
}

VariantSamples input_samples(const std::string& place, const Signature& signature) {
  std::vector<NamedValues> items;
  std::error_code error;
  if (fs::is_directory(place, error)) {
    for (DataSet& set : recorded_data_sets(place, signature)) items.push_back(std::move(set.inputs));
    if (items.empty()) {
      throw Error(ErrorCode::not_found,
                  format_message("{} '{}' has no folders test_data_set_*", setting_named("samples"), place));
    }
  } else {
    items = read_inputs({.inputs = {"@" + place}, .file = {}}, signature).items;
  }
  if (items.empty())
    throw Error(ErrorCode::invalid_input, format_message("{} '{}' holds no inputs", setting_named("samples"), place));
  std::string what = fmt::format("{} {}", items.size(), items.size() == 1 ? "sample" : "samples");
  return samples_of(std::move(items), std::move(what));
}

// Empty where the model makes no vectors of texts.
std::optional<VariantSamples> vector_samples(const fs::path& onnx_file, const Runtime& runtime) {
  try {
    const auto model = checkpoint::sentence_model_of(onnx_file);
    if (!model) return std::nullopt;
    VariantSamples samples = text_samples({}, *model);
    (void)samples.typical(runtime);
    return samples;
  } catch (const Error& error) {
    log::debug("{} makes no vectors of texts: {}", onnx_file.string(), error.message());
    return std::nullopt;
  }
}

// Tokens of recorded texts, or of pairs where the task takes those; none where the model takes other inputs beside.
std::vector<NamedValues> token_samples(const fs::path& onnx_file, const Signature& signature) {
  std::vector<NamedValues> items;
  try {
    auto settings = pipeline::read_text_settings(onnx_file, nullptr, signature);
    if (!settings) return items;
    const pipeline::Pipeline pipeline(*std::move(settings), signature);
    const auto texts = embedding::recorded_texts();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      NamedValues given;
      for (const SignatureEntry& entry : pipeline.text_inputs()) {
        if (!entry.required) continue;
        if (entry.type.element != ElementType::string) return {};
        const std::string_view text = texts[(i + given.size()) % texts.size()];
        given.emplace_back(entry.name, Tensor::of_strings({1}, {std::string(text)}));
      }
      for (pipeline::Part& part : pipeline.prepare(given).parts) items.push_back(std::move(part.inputs));
    }
  } catch (const Error& error) {
    log::debug("{} is not given texts: {}", onnx_file.string(), error.message());
    items.clear();
  }
  return items;
}

// Files next to the model may belong to another one.
std::vector<NamedValues> data_set_samples(const fs::path& onnx_file, const Signature& signature) {
  std::vector<NamedValues> items;
  try {
    for (DataSet& set : recorded_data_sets(onnx_file.parent_path(), signature)) items.push_back(std::move(set.inputs));
  } catch (const Error& error) {
    log::debug("{} is not given the data sets beside it: {}", onnx_file.string(), error.message());
    items.clear();
  }
  return items;
}

std::vector<NamedValues> made_up_samples(const Signature& signature) {
  constexpr std::uint64_t count = 8;
  std::vector<NamedValues> items;
  for (std::uint64_t seed = 0; seed < count; ++seed) items.push_back(synthetic_inputs(signature, {}, seed));
  return items;
}

}  // namespace

VariantSamples samples_at_hand(const fs::path& onnx_file, const Runtime& runtime) {
  if (auto vectors = vector_samples(onnx_file, runtime)) return *std::move(vectors);
  const Signature& signature = runtime.info().signature;
  if (auto items = token_samples(onnx_file, signature); !items.empty()) {
    return samples_of(std::move(items), "recorded texts");
  }
  if (auto items = data_set_samples(onnx_file, signature); !items.empty()) {
    return samples_of(std::move(items), "recorded data sets");
  }
  return samples_of(made_up_samples(signature), "made up inputs");
}

VariantSamples variant_samples(const std::string& texts, const std::string& place, const fs::path& onnx_file,
                               const std::optional<checkpoint::SentenceModel>& sentences) {
  if (!place.empty()) return input_samples(place, ModelInspector::inspect(onnx_file).signature);
  if (sentences) return text_samples(texts, *sentences);
  throw Error(ErrorCode::usage,
              format_message("'{}' reads no texts, so that a variant's answers have to be compared on inputs of yours: "
                             "{} PLACE, a folder with test_data_set_*, an .npz file or JSON lines",
                             file_at(onnx_file), setting_named("samples")));
}

}  // namespace gpux::evaluation
