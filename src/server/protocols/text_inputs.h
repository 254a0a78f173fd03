#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "text/tokenizer.h"

/// Texts and tokens as requests of several protocols have them, and vectors as answers have them.
namespace gpux::server {

using TokenIds = std::vector<std::uint32_t>;

/// A text, or the tokens of one.
using TextInput = std::variant<std::string, TokenIds>;

/// The maximum number of texts in a request.
inline constexpr std::size_t max_texts = 2048;

/// A text, a list of them, a list of token ids, or a list of those. Error invalid_input.
std::vector<TextInput> read_text_inputs(const nlohmann::json& value, const std::string& place);

/// A text as it is read; of tokens, what they spell without the special ones. Error invalid_input.
std::string text_of(const TextInput& input, const text::Tokenizer& tokenizer);

/// "[0.1,0.2]" in the fewest digits that read back to the same float32, or in quotes the base64 of their bytes.
void append_vector(std::string& out, const std::vector<float>& vector, bool base64);

}  // namespace gpux::server
