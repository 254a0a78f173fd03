#pragma once

#include <cstddef>
#include <stop_token>
#include <string_view>
#include <vector>

#include "generation/decoder.h"
#include "generation/model_files.h"
#include "gpux/generator.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// The runs in which the tokens of a prompt go through the model: numbers of tokens, each at most `chunk`. None has one
/// token, unless the prompt has: a run of one token computes with other kernels, and their last digits differ.
std::vector<std::size_t> prompt_chunks(std::size_t tokens, std::size_t chunk);

/// Continues the prompt. `settings` have passed check(). Errors as of Generator::generate(); interrupted by `stop`.
Completion continue_text(const Decoder& decoder, const text::Tokenizer& tokenizer, const ModelFiles& files,
                         std::string_view prompt, const GenerationSettings& settings, const Generator::Sink& sink,
                         const std::stop_token& stop);

}  // namespace gpux::generation
