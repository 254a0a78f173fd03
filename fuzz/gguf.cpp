// A GGUF file: its structure, the rows of its tensors, and the settings and the tokenizer of its metadata.
#include <vector>

#include "fuzzer.h"
#include "importer/gguf/gguf_file.h"
#include "importer/gguf/model_settings.h"
#include "importer/gguf/stored_blocks.h"
#include "importer/gguf/tokenizer.h"
#include "importer/gguf/vocabulary.h"

namespace {

using namespace gpux;
namespace gguf = gpux::importer::gguf;

template <typename Call>
void refused_or_done(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    fuzz::require(error.code() == ErrorCode::invalid_model, "what is refused is the model's fault");
  }
}

// A file has no more elements than 256 for each of its bytes.
void read_first_row(const gguf::StoredTensor& tensor) {
  if (tensor.rows() == 0 || tensor.row_elements() == 0) return;
  const std::vector<float> row = gguf::GgufFile::elements(tensor, 0, 1);
  fuzz::require(row.size() == static_cast<std::size_t>(tensor.row_elements()), "a row has other sizes than its tensor");
  if (!gguf::block_format_of(tensor.type)) return;
  const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(tensor.rows());
  (void)gguf::stored_blocks(tensor.type, tensor.bytes.first(row_bytes), 1, tensor.row_elements());
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  const std::filesystem::path file = scratch_folder() / "a.gguf";
  write_file_atomically(file, input);
  const gguf::GgufFile read(file);
  for (const auto& [name, tensor] : read.tensors()) read_first_row(tensor);
  refused_or_done([&] { (void)gguf::config_of(read); });
  refused_or_done([&] {
    const gguf::Vocabulary vocabulary = gguf::read_vocabulary(read.metadata());
    (void)gguf::tokenizer_config(read.metadata(), vocabulary);
    (void)gguf::tokenizer_json(read.metadata(), vocabulary);
  });
}
