#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpux::embedding {

/// Vectors of one length, as they lie somewhere, with what is known of them.
struct StoredVectors {
  std::size_t rows = 0;
  std::size_t dimension = 0;          ///< 0 where there is no row that would say it
  std::span<const float> elements;    ///< [rows, dimension]
  std::shared_ptr<const void> owner;  ///< keeps the elements alive
  std::string model, digest;          ///< that made them ("sha256:…"); empty where it is not said
  /// Per row, the stored hash, id, text or image; a list is empty if the file has none of these.
  std::vector<std::optional<std::string>> hashes, ids, texts, images;
};

/// Reads what `gpux embed` writes: FILE.npy of [rows, dimension] (float32 is used in the mapped file; float64,
/// float16 and int8 are converted), FILE.jsonl, FILE.vec, or a folder's *.vec in the order of their names. A JSON line
/// may have "id", "hash", "text" and "image" too.
/// Errors not_found, storage; usage for another name; invalid_input with the place for what is malformed, of another
/// model or another dimension than what stands before it, or encoded as bits.
StoredVectors read_stored_vectors(const std::filesystem::path& place);

}  // namespace gpux::embedding
