#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "embedding/representation.h"
#include "embedding/top_k.h"
#include "embedding/vector_file.h"

/// Files of sparse vectors and of token vectors.
namespace gpux::embedding {

/// Writes them as they come: JSON lines on standard output or in FILE.jsonl, or FILE.npz, which is collected in memory.
/// - JSON lines: {"model", "digest", "dimension", "indices", "values"} of a sparse vector, where asked for with
///   "tokens"; {"model", "digest", "dimension", "vectors"} of token vectors.
/// - .npz of sparse vectors: a CSR matrix as scipy.sparse.load_npz reads it (data, indices, indptr, shape, format).
/// - .npz of token vectors: embeddings float32 [vectors of all texts, width], and offsets int64 [texts + 1]: those of
///   text i are the rows from offsets[i] to offsets[i + 1].
/// Both have the arrays model and digest, too.
class RepresentationWriter {
 public:
  /// The name of an entry of the vocabulary.
  using TokenNames = std::function<std::string(std::uint32_t id)>;

  struct Options {
    Representation representation = Representation::sparse;
    std::string output;      ///< empty: standard output
    TokenNames token_names;  ///< sparse: written with each weight; null: they are not
  };

  /// `source.run` has no part in it. Errors usage (another name), storage.
  RepresentationWriter(Options options, VectorSource source, LinePrinter print);

  /// Writes one embedding. Errors storage.
  void add(const Embedding& embedding);
  /// The file takes its place. Error storage.
  void finish();

 private:
  [[nodiscard]] std::string line_of(const Embedding& embedding) const;

  Options options_;
  VectorSource source_;
  LinePrinter print_;
  bool is_archive_;
  std::optional<FileReplacement> file_;
  std::vector<float> values_;  // of an archive
  std::vector<std::int32_t> indices_;
  std::vector<std::int64_t> offsets_{0};
};

/// Embeddings read by read_stored_embeddings(), with the model that made them. All are of one representation.
struct StoredEmbeddings {
  Representation representation = Representation::sparse;
  std::vector<Embedding> embeddings;
  std::size_t dimension = 0;  ///< dimension of a token's vector, or entries of the vocabulary; 0: not known
  std::string model, digest;  ///< that made them ("sha256:…"); empty: not known
};

/// Whether the file has sparse vectors or token vectors: FILE.npz, or FILE.jsonl by its first line; empty: neither.
/// Errors not_found, storage; invalid_input for an .npz of other arrays.
std::optional<Representation> stored_representation(const std::filesystem::path& file);

/// Reads what RepresentationWriter writes. Errors as above; invalid_input with the place for what is malformed.
StoredEmbeddings read_stored_embeddings(const std::filesystem::path& file);

/// The k embeddings with the highest scores for the query, best first, of equal scores the lower index; those without
/// a finite score are left out. The score is sparse_product() or max_sim(), which has `is_mean`. On `threads` threads
/// (at least 1). Error invalid_input where the query is of another width.
std::vector<Match> best_matches(const std::vector<Embedding>& embeddings, const Embedding& query,
                                Representation representation, bool is_mean, std::size_t k, unsigned threads = 1);

}  // namespace gpux::embedding
