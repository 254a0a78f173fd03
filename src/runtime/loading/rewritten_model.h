#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/verdict.h"
#include "onnx/stored_caches.h"
#include "ort/session.h"
#include "runtime/loading/fusion_trial.h"
#include "runtime/loading/load_plan.h"

namespace gpux::runtime {

/// The model as a load rewrites it before ONNX Runtime gets it, if the plan's providers benefit: nodes are fused
/// (onnx/fused_attention.h) if the providers compute an example of them right (fusion_trial.h), keys and values are
/// stored as LoadOptions::cache_precision says (onnx/stored_caches.h), weights of 16 bits stay so up to the provider
/// (onnx/small_weights.h), and the output is added that LoadOptions::pooled_output asks for. Each is given up where no
/// session can be made with it.
class RewrittenModel {
 public:
  /// Both arguments must outlive this object.
  RewrittenModel(const LoadOptions& options, const Signature& signature) : options_(options), signature_(signature) {}

  /// The content for that file with sessions of these settings; none: it is loaded as it is, as a graph that was
  /// optimized before always is.
  std::optional<std::string> of(const std::filesystem::path& file, const ModelInfo& info, const Plan& plan,
                                const ort::SessionSettings& settings, bool is_optimized);

  /// Whether keys and values are stored in another type in the last content for a provider that got no node of the
  /// session: the next one has them as they are in the model, or as another provider needs them.
  bool give_up_idle_caches(const ort::Session& session, const Plan& plan);

  /// After no session could be made with the last content: the next has a change less. False: it had none.
  bool give_up(const std::string& reason);

  /// The inputs and outputs of the last content that are float32 in the model.
  [[nodiscard]] const onnx::StoredCaches& stored_caches() const noexcept { return stored_caches_; }

  [[nodiscard]] bool is_pooled() const noexcept { return is_pooled_; }

  /// Says in the verdict what became of the changes.
  void tell(const Plan& plan, Verdict& verdict) const;

  /// One line that lists the changes in the last content. Empty: it is unchanged.
  [[nodiscard]] std::string identity() const;

 private:
  std::optional<std::string> fused(std::string_view content, bool is_float16, const ort::SessionSettings& settings);
  std::optional<std::string> with_stored_caches(std::string_view content, const Plan& plan,
                                                const ort::SessionSettings& settings);
  std::optional<std::string> with_small_weights(std::string_view content);
  std::optional<std::string> pooled(std::string_view content, const PooledOutput& wanted);

  const LoadOptions& options_;
  const Signature& signature_;
  std::map<std::string, std::size_t> fused_;  // operators of the last content
  onnx::StoredCaches stored_caches_;
  bool is_for_reader_ = false;  // stored_caches_ are so for a provider that has them in float32, too
  bool has_idle_caches_ = false;
  bool has_small_weights_ = false, has_small_weights_failed_ = false;
  bool is_pooled_ = false;  // the last content is
  FusionDefects defects_;   // of what is fused no more
  std::optional<std::string> cache_failure_, pooling_failure_;
  std::optional<std::string> cache_obstacle_;  // of the last plan
};

/// A session of the content, with the external data of the file.
ort::Session session_of_content(const std::string& content, const std::filesystem::path& file,
                                const ort::SessionSettings& settings);

}  // namespace gpux::runtime
