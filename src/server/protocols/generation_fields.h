#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gpux/generator.h"
#include "gpux/output_constraint.h"
#include "server/protocols/request_json.h"

/// Common parts of requests of OpenAI's clients for generated text.
namespace gpux::server {

/// Maximum number of answers to a prompt, as OpenAI limits it.
inline constexpr std::size_t max_answers = 128;

/// Maximum number of most probable tokens whose log probabilities an answer has for each place.
inline constexpr std::uint32_t max_log_probabilities = 20;

/// How an answer is sent.
struct StreamSettings {
  bool is_streamed = false;
  bool has_usage = false;  ///< a last event has the numbers of tokens
};

/// Fields that read_common_sampling() reads.
[[nodiscard]] std::span<const Field> common_sampling_fields();

/// Fields common to OpenAI's routes that generate text: "model", and those that the functions below read.
[[nodiscard]] std::span<const Field> generation_fields();

/// "temperature", "top_p", "min_p", "typical_p", "top_k", "presence_penalty", "frequency_penalty", "seed", "stop": what
/// the protocols write alike. As read_sampling(), but that the settings are not checked.
void read_common_sampling(Members& members, GenerationSettings& settings);

/// "temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "seed", "stop" of OpenAI; "top_k",
/// "min_p", "typical_p", "repetition_penalty", "min_tokens", "stop_token_ids", "ignore_eos", "skip_special_tokens",
/// "cache_salt" of vLLM. What is not there is left as it is. Error invalid_input that names the member; also for a
/// value outside its range.
void read_sampling(Members& members, GenerationSettings& settings);

/// "stream", "stream_options". Error invalid_input.
StreamSettings read_stream(Members& members);

/// Reads "prompt_logprobs" of vLLM. Error invalid_input; also with a streamed answer.
void read_prompt_scores(Members& members, const StreamSettings& stream, GenerationSettings& settings);

/// Reads "n", the number of answers. Error invalid_input.
std::size_t read_answers(Members& members);

/// The form of the answer: "response_format" of OpenAI, or "guided_json", "guided_regex", "guided_choice",
/// "guided_grammar", "structured_outputs" of vLLM. `body`: the whole body, in which they are read as they are written.
/// Error invalid_input.
OutputConstraint read_constraint(Members& members, std::string_view body);

/// The member that read_constraint() reads the form from; empty where there is none.
std::string constraint_member(Members& members);

/// generation::check() with the error invalid_input.
void check_settings(const GenerationSettings& settings, const NamedMembers& members = {});

}  // namespace gpux::server
