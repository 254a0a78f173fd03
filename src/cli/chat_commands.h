#pragma once

#include <string>

#include "cli/chat_session.h"

namespace gpux::cli {

/// Does what a command of 'gpux chat' says, as "set" with "temperature 0.7". Returns whether the conversation goes on.
/// Error usage: an unknown command, or a wrong argument; of files.
bool perform_chat_command(ChatSession& session, const std::string& name, const std::string& argument);

/// Text that /help prints: a line for each command.
std::string chat_commands_text();

}  // namespace gpux::cli
