#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/model_argument.h"
#include "model/open_encoder.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// `flags` has to live as long as the command. Adds no MODEL.
void add_encoder_flags(CLI::App& command, EncoderFlags& flags, WorkerUse use = WorkerUse::once);

/// --sparse, --multi-vector, and what is kept of sparse vectors: without the first two the model decides.
void add_representation_flags(CLI::App& command, EncoderFlags& flags);

/// Takes the model from the words behind the command where neither --model nor a level names one, and gives the others.
std::vector<std::string> place_model(const ModelArgument& words, EncoderFlags& flags);

/// open_encoder(), whose messages are shown.
OpenEncoder open_encoder(const EncoderFlags& flags, const Context& context);

}  // namespace gpux::cli
