#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "vector_store/collection.h"

/// PostgreSQL's binary format of COPY (documentation, "COPY", Binary Format), and pgvector's of its types
/// (vector_send and sparsevec_send in its sources). Pure.
namespace gpux::vector_store {

/// Makes the bytes of "COPY … FROM STDIN (FORMAT binary)".
class CopyRows {
 public:
  CopyRows();

  /// A row begins, of `columns` columns that follow.
  void begin_row(std::size_t columns);
  void add_text(std::string_view text);
  void add_jsonb(std::string_view json);
  void add_vector(std::span<const float> vector);
  void add_sparse(const SparseVector& vector, std::size_t dimension);

  /// The bytes so far with the trailer. Ends the rows.
  [[nodiscard]] std::string finish();

 private:
  std::string bytes_;
};

}  // namespace gpux::vector_store
