#pragma once

#include <vector>

#include "cli/serve_flags.h"
#include "server/model_repository.h"

namespace gpux::cli {

/// What the flags say is to be served, as it is on the disk now: the models named, those that --models lists, and those
/// in --repository, a folder of DIR/NAME/VERSION/model.onnx, of which each model's highest version counts.
/// Errors usage (two of one name and version, flags that cannot be), and those of looking.
std::vector<server::ModelSource> served_models(const ServeFlags& flags);

/// Where to listen: a flag, or what the models' gpux.yml say where they agree, or 127.0.0.1:8080.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};

/// Error invalid_config where two models say different things and no flag decides.
ListenAddress listen_address(const ServeFlags& flags, const server::ModelRepository& repository);

/// The model of routes without a name: --default, or what --models says; empty: none.
std::string default_model(const ServeFlags& flags);

}  // namespace gpux::cli
