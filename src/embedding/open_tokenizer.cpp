#include "embedding/open_tokenizer.h"

#include "checkpoint/tokenizer_changes.h"

namespace gpux::embedding {

text::Tokenizer open_tokenizer(const std::filesystem::path& tokenizer_json) {
  return text::Tokenizer::from_file(tokenizer_json, checkpoint::tokenizer_changes(tokenizer_json.parent_path()));
}

}  // namespace gpux::embedding
