#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/export.h"
#include "gpux/model.h"
#include "gpux/similarity.h"
#include "gpux/verdict.h"

namespace gpux {

/// How an Embedder loads its model and runs texts.
struct EmbedderOptions {
  ModelOptions model = {};
  std::optional<TextBatching> batching = {};  ///< empty: throughput on a GPU or NPU, else exact
  unsigned workers = 0;  ///< threads of embed() with several texts; 0: what keeps the processors busy
};

/// How texts become embeddings.
struct EmbeddingOptions {
  std::optional<std::string> prompt = {};  ///< text before each; empty: the model's default
  std::string prompt_name = {};            ///< one of prompts() instead
  std::size_t max_tokens = 0;              ///< longer texts are truncated; 0: as many as the model takes
  std::size_t dimensions = 0;              ///< the first of each embedding; 0: as the model says, else all
  std::optional<bool> normalize = {};  ///< to length 1; empty: where truncated to `dimensions`, else as the model says
};

/// Embeddings of some texts: float32 of [size(), dimension()], in row-major order.
class GPUX_API Embeddings {
 public:
  Embeddings() = default;

  Embeddings(std::vector<float> elements, std::size_t dimension)
      : elements_(std::move(elements)), dimension_(dimension) {}

  /// Number of embeddings.
  [[nodiscard]] std::size_t size() const noexcept { return dimension_ == 0 ? 0 : elements_.size() / dimension_; }

  /// Elements of each embedding.
  [[nodiscard]] std::size_t dimension() const noexcept { return dimension_; }

  /// The embedding of text `row`, dimension() elements. `row` is not checked. Valid as long as this object.
  [[nodiscard]] std::span<const float> operator[](std::size_t row) const {
    return std::span(elements_).subspan(row * dimension_, dimension_);
  }

  /// All embeddings, row by row: size() * dimension() elements.
  [[nodiscard]] std::span<const float> elements() const noexcept { return elements_; }

 private:
  std::vector<float> elements_;
  std::size_t dimension_ = 0;
};

class Collection;

/// Makes embeddings of texts, bit-identical to those of `gpux embed`. Movable; all const calls from any thread.
class GPUX_API Embedder {
 public:
  /// `model` is a folder with tokenizer.json and model.onnx, or a name in the store.
  /// Errors not_found, invalid_model, invalid_config, usage; of Runtime.
  explicit Embedder(const std::string& model, const EmbedderOptions& options = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  /// Elements of an embedding unless EmbeddingOptions::dimensions says another number.
  [[nodiscard]] std::size_t dimension() const noexcept;

  /// The model's prompts: name and text.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& prompts() const noexcept;

  /// `text` is UTF-8. Errors invalid_input (no token, not UTF-8), usage (options that the model cannot meet); of
  /// Runtime::infer().
  [[nodiscard]] std::vector<float> embed(std::string_view text, const EmbeddingOptions& options = {}) const;

  /// Embeds several texts, on as many threads as the options say. The error of the first text that fails names it:
  /// "text 3".
  [[nodiscard]] Embeddings embed(std::span<const std::string> texts, const EmbeddingOptions& options = {}) const;

  /// Puts the next text into its argument; false: there is none. Called by one thread at a time.
  using Source = std::function<bool(std::string&)>;
  /// Is given each text and its embedding in the order of the texts, by one thread at a time.
  using Sink = std::function<void(std::string_view text, std::span<const float> embedding)>;

  /// Embeds any number of texts in bounded memory. Returns the number of texts. What source and sink throw is thrown as
  /// it is.
  std::uint64_t embed(const Source& source, const Sink& sink, const EmbeddingOptions& options = {}) const;

  /// How the model's embeddings are compared: similarity_fn_name of its folder, or cosine.
  [[nodiscard]] Similarity similarity() const noexcept;

  /// SHA-256 of the ONNX file that runs, in hexadecimal digits: embeddings of different models cannot be compared.
  [[nodiscard]] const std::string& digest() const noexcept;

  /// Where the model runs: provider, device, precision.
  [[nodiscard]] const Verdict& verdict() const noexcept;

 private:
  friend class Collection;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux
