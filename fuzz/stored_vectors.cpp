// Vectors in JSON lines: every row is as long as the first, and each list has an entry for each row or none at all.
#include "embedding/stored_vectors.h"

#include "base/files.h"
#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::filesystem::path file = scratch_folder() / "vectors.jsonl";
  write_file_atomically(file, input);
  const embedding::StoredVectors vectors = embedding::read_stored_vectors(file);
  require(vectors.elements.size() == vectors.rows * vectors.dimension, "there are more or fewer elements");
  for (const auto* list : {&vectors.hashes, &vectors.ids, &vectors.texts}) {
    require(list->empty() || list->size() == vectors.rows, "a list is not as long as there are rows");
  }
}
