#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpux/chat.h"

namespace gpux::server {

/// The function that the call with this id, of an earlier message, calls; empty where there is none.
std::string called_function(const std::vector<ChatMessage>& messages, std::string_view call_id);

}  // namespace gpux::server
