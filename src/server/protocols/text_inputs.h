#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "server/jobs/text_input.h"

/// Texts and tokens as requests of several protocols have them, and vectors as answers have them.
namespace gpux::server {

/// The maximum number of texts in a request.
inline constexpr std::size_t max_texts = 2048;

/// A text, a list of them, a list of token ids, or a list of those. Error invalid_input.
std::vector<TextInput> read_text_inputs(const nlohmann::json& value, const std::string& place);

/// "[0.1,0.2]" in the fewest digits that read back to the same float32, or in quotes the base64 of their bytes.
void append_vector(std::string& out, const std::vector<float>& vector, bool base64);

}  // namespace gpux::server
