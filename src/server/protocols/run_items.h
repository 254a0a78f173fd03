#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gpux/tensor.h"
#include "server/models/served_model.h"
#include "server/protocols/call.h"

namespace gpux::server {

/// Items of a request, each a run of its own, and how its answer is written.
struct ItemRuns {
  std::size_t count = 0;
  std::string item = "item";  ///< what errors call one of them
  /// Reads an item. Called by several threads at once, but once for each. Error invalid_input.
  std::function<NamedValues(std::size_t index)> read;
  /// The memory that reading the item takes.
  std::function<std::uint64_t(std::size_t index)> cost;
  /// Writes the outputs of an item.
  std::function<void(std::string& out, const NamedValues& outputs)> append;
  std::string_view begin = "[", separator = ",\n ", end = "]";  ///< around the answers of all items
  std::shared_ptr<MemoryShare> share;                           ///< held until the answer; may be null
};

/// All of the items, or nothing: the first failure is the answer, and the rest is dropped. They are read, run and
/// written one by one, a few at a time; full batches come of those of all requests.
void run_items(const RouteCall& call, const std::shared_ptr<ServedModel>& model, ItemRuns runs);

}  // namespace gpux::server
