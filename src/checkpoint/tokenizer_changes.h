#pragma once

#include <filesystem>
#include <string>

namespace gpux::checkpoint {

/// Changes that the files next to a tokenizer.json make to it, as transformers and sentence-transformers read them: as
/// text::Tokenizer::from_file() takes it; empty if they change nothing. Reads
/// - tokenizer_config.json: do_lower_case, strip_accents and tokenize_chinese_chars of BertTokenizer and its kin,
///   add_prefix_space of RobertaTokenizer and its kin, split_special_tokens, added_tokens_decoder and the special
///   tokens; tokenizer_class, else that of config.json, says which kin;
/// - special_tokens_map.json and added_tokens.json, where there is no added_tokens_decoder;
/// - do_lower_case of sentence_bert_config.json.
/// Error invalid_model.
std::string tokenizer_changes(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
