#pragma once

#include <gpux/error.h>
#include <gpux/pipeline.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "interrupt.h"
#include "model_options.h"

namespace gpux::python {

/// A pipeline that can be closed while calls are in flight: they keep it until they end.
class LoadedPipeline {
 public:
  using Texts = std::vector<std::string>;

  LoadedPipeline(const std::string& model, nanobind::dict settings) {
    const ModelOptions options = to_model_options(std::move(settings));
    pipeline_ =
        without_gil([&](const Interruptible& /*unused*/) { return std::make_shared<const Pipeline>(model, options); });
  }

  void close() { pipeline_.reset(); }

  [[nodiscard]] std::shared_ptr<const Pipeline> opened() const {
    if (!pipeline_) throw Error(ErrorCode::usage, "the pipeline is closed: make another one");
    return pipeline_;
  }

  [[nodiscard]] std::vector<std::vector<LabelScore>> classify(const Texts& texts) const {
    const std::shared_ptr<const Pipeline> pipeline = opened();
    return without_gil([&](const Interruptible& interruptible) {
      std::vector<std::vector<LabelScore>> all;
      for (const std::string& text : texts) {
        interruptible.check();
        all.push_back(pipeline->classify(text));
      }
      return all;
    });
  }

  [[nodiscard]] std::vector<std::vector<LabelScore>> zero_shot(const Texts& texts, const Texts& labels,
                                                               const std::string& hypothesis_template,
                                                               bool multi_label) const {
    const std::shared_ptr<const Pipeline> pipeline = opened();
    const ZeroShotOptions options{
        .labels = labels, .hypothesis_template = hypothesis_template, .multi_label = multi_label};
    return without_gil([&](const Interruptible& interruptible) {
      std::vector<std::vector<LabelScore>> all;
      for (const std::string& text : texts) {
        interruptible.check();
        all.push_back(pipeline->zero_shot(text, options));
      }
      return all;
    });
  }

  [[nodiscard]] std::vector<RankedText> rank(const std::string& query, const Texts& texts) const {
    const std::shared_ptr<const Pipeline> pipeline = opened();
    return without_gil([&](const Interruptible& /*unused*/) { return pipeline->rank(query, texts); });
  }

  [[nodiscard]] std::vector<TextEntity> find_entities(const std::string& text) const {
    const std::shared_ptr<const Pipeline> pipeline = opened();
    return without_gil([&](const Interruptible& /*unused*/) { return pipeline->find_entities(text); });
  }

  [[nodiscard]] TextAnswer answer(const std::string& question, const std::string& context) const {
    const std::shared_ptr<const Pipeline> pipeline = opened();
    return without_gil([&](const Interruptible& /*unused*/) { return pipeline->answer(question, context); });
  }

 private:
  std::shared_ptr<const Pipeline> pipeline_;
};

}  // namespace gpux::python
