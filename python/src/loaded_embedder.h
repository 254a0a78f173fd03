#pragma once

#include <gpux/embedder.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

namespace gpux::python {

/// An embedder that can be closed while calls are in flight: they keep it until they end.
class LoadedEmbedder {
 public:
  LoadedEmbedder(const std::string& model, nanobind::dict settings, const std::optional<std::string>& batching,
                 unsigned workers);

  void close() { embedder_.reset(); }

  /// float32 of [texts, dimensions]. `progress`: called with the number of texts that are done; or None.
  [[nodiscard]] nanobind::object encode(const std::vector<std::string>& texts, const EmbeddingOptions& options,
                                        nanobind::object progress) const;
  [[nodiscard]] nanobind::object encode_one(const std::string& text, const EmbeddingOptions& options) const;
  [[nodiscard]] std::string similarity() const;

  /// Error usage after close().
  [[nodiscard]] std::shared_ptr<const Embedder> opened() const;

 private:
  std::shared_ptr<const Embedder> embedder_;
};

}  // namespace gpux::python
