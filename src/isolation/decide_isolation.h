#pragma once

#include <optional>
#include <string>

#include "gpux/options.h"

/// Whether a model runs in this process or in a worker process. Pure.
namespace gpux::isolation {

/// What was set; empty: nothing.
struct IsolationRequest {
  std::optional<Isolation> isolation;
  std::string from;  ///< "--isolation", "gpux.yml:12:5"
  /// It is from the gpux.yml of the package itself, which may make isolation stricter, but not give it up.
  bool is_from_package = false;
};

/// What is known about a load.
struct IsolationFacts {
  std::string plugin_library;    ///< the name of a provider whose library is given by its path; empty: none
  std::string operator_library;  ///< the file of a library of custom operators; empty: none
  bool is_pulled_package = false;
  /// Why it cannot run in a worker process: "it generates text", "a profile is written"; empty: it can. Only defaults
  /// respect it: what is requested and not supported is an error of the load.
  std::string obstacle;
};

struct IsolationDecision {
  Isolation isolation = Isolation::thread;
  std::string reason;  ///< for the verdict, as a sentence; empty: an ordinary load in this process
};

/// A request takes precedence. Without one, native code that does not come with gpux or the machine's provider packages
/// runs in a worker process.
IsolationDecision decide_isolation(const IsolationRequest& request, const IsolationFacts& facts);

}  // namespace gpux::isolation
