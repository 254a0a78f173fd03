#pragma once

#include "server/protocols/call.h"

/// Answers to the requests of llama.cpp's clients.
namespace gpux::server::llama_cpp {

void show_properties(const RouteCall& call);
void list_slots(const RouteCall& call);
void apply_template(const RouteCall& call);
void tokenize(const RouteCall& call);
void detokenize(const RouteCall& call);

}  // namespace gpux::server::llama_cpp
