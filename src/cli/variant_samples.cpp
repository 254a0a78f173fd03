#include "cli/variant_samples.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/data_sets.h"
#include "cli/inputs.h"
#include "cli/texts.h"
#include "embedding/recorded_texts.h"
#include "embedding/sentence_encoder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> given_texts(const std::string& file) {
  const Texts source = texts_of({"@" + file}, {});
  std::vector<std::string> texts;
  for (std::string text; source.next(text);) texts.push_back(text);
  return texts;
}

// A tokenizer may lie beside a model that makes something else of its tokens.
std::unique_ptr<embedding::SentenceEncoder> encoder_of(const embedding::SentenceModel& model, const Runtime& runtime) {
  try {
    return std::make_unique<embedding::SentenceEncoder>(model, runtime);
  } catch (const Error& error) {
    throw error.within("--samples PLACE gives other inputs than texts");
  }
}

VariantSamples text_samples(const std::string& file, const embedding::SentenceModel& model) {
  std::vector<std::string> texts;
  if (file.empty()) {
    for (const std::string_view text : embedding::recorded_texts()) texts.emplace_back(text);
  } else {
    texts = given_texts(file);
  }
  if (texts.empty()) throw Error(ErrorCode::invalid_input, fmt::format("--texts '{}' holds no text", file));
  std::string what = fmt::format("{} {}", texts.size(), file.empty() ? "recorded texts" : "texts");

  // Made of the first model that is asked, and true of all of them.
  struct Prepared {
    std::unique_ptr<embedding::SentenceEncoder> encoder;
    std::vector<embedding::PreparedText> texts;
  };

  auto prepared = std::make_shared<Prepared>();
  return {[prepared, texts = std::move(texts), model](const Runtime& runtime) {
            if (!prepared->encoder) {
              prepared->encoder = encoder_of(model, runtime);
              for (const std::string& text : texts) prepared->texts.push_back(prepared->encoder->prepare(text, {}));
            }
            const InferOptions options{.timeout = {}, .outputs = {prepared->encoder->output()}};
            runtime::Answers answers;
            for (const embedding::PreparedText& text : prepared->texts) {
              const NamedValues got = runtime.infer(text.inputs, options);
              const std::vector<float> vector = prepared->encoder->finish(text, got.front().second, {});
              Tensor tensor = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(vector.size())});
              const auto bytes = std::as_bytes(std::span(vector));
              std::copy(bytes.begin(), bytes.end(), tensor.mutable_bytes().begin());
              answers.push_back({{"vector", std::move(tensor)}});
            }
            return answers;
          },
          std::move(what)};
}

VariantSamples input_samples(const std::string& place, const Signature& signature) {
  std::vector<NamedValues> items;
  std::error_code error;
  if (fs::is_directory(place, error)) {
    for (DataSet& set : recorded_data_sets(place, signature)) items.push_back(std::move(set.inputs));
    if (items.empty()) {
      throw Error(ErrorCode::not_found, fmt::format("--samples '{}' has no folders test_data_set_*", place));
    }
  } else {
    items = read_inputs({.inputs = {"@" + place}, .file = {}}, signature).items;
  }
  if (items.empty()) throw Error(ErrorCode::invalid_input, fmt::format("--samples '{}' holds no inputs", place));
  std::string what = fmt::format("{} {}", items.size(), items.size() == 1 ? "sample" : "samples");
  return {[items = std::move(items)](const Runtime& runtime) {
            runtime::Answers answers;
            for (const NamedValues& item : items) answers.push_back(runtime.infer(item));
            return answers;
          },
          std::move(what)};
}

}  // namespace

VariantSamples variant_samples(const std::string& texts, const std::string& place, const fs::path& onnx_file,
                               const std::optional<embedding::SentenceModel>& sentences) {
  if (!place.empty()) return input_samples(place, ModelInspector::inspect(onnx_file).signature);
  if (sentences) return text_samples(texts, *sentences);
  throw Error(ErrorCode::usage,
              fmt::format("'{}' reads no texts, so that a variant's answers have to be compared on inputs of yours: "
                          "--samples PLACE, a folder with test_data_set_*, an .npz file or JSON lines",
                          onnx_file.string()));
}

}  // namespace gpux::cli
