#pragma once

#include "server/protocols/call.h"

/// Handlers of the routes by which Ollama's clients change the stored models. They answer when the served models have
/// followed. Source: Ollama's API reference (docs/api.md).
namespace gpux::server::ollama {

void pull_model(const RouteCall& call);
void push_model(const RouteCall& call);
void create_model(const RouteCall& call);
void copy_model(const RouteCall& call);
void delete_model(const RouteCall& call);
void find_blob(const RouteCall& call);
void keep_blob(const RouteCall& call);

}  // namespace gpux::server::ollama
