#include "provider/request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/table.h"

namespace gpux::provider {
namespace {

// The default order of accelerators; what is not named keeps the table's order behind.
std::vector<std::string> preferred(System system) {
  switch (system) {
    case System::macos:
      return {"coreml"};
    case System::windows:
      return {"tensorrt", "tensorrt-rtx", "cuda", "directml", "openvino"};
    case System::linux_:
      break;
  }
  return {};
}

std::vector<std::string> graphics_order(System system) {
  std::vector<std::string> ids = preferred(system);
  for (const ProviderRow& row : table()) {
    if (row.kind == "gpu" && std::find(ids.begin(), ids.end(), row.id) == ids.end()) ids.emplace_back(row.id);
  }
  return ids;
}

void add(std::vector<std::string>& ids, std::string_view id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.emplace_back(id);
}

std::string resolve(std::string_view name, const std::vector<std::string>& own_names, Request& request) {
  for (const std::string& own : own_names) {
    if (lower(own) == lower(name)) return own;
  }
  const ProviderRow* row = find_row(name);
  if (row != nullptr) {
    const std::string typed = lower(name);
    if (typed == "rocm" || typed == "rocmexecutionprovider") {
      request.remarks.emplace_back("ONNX Runtime removed its ROCm provider in 1.23: 'rocm' means migraphx");
    }
    return std::string(row->id);
  }
  std::vector<std::string> accepted = accepted_names();
  accepted.insert(accepted.end(), own_names.begin(), own_names.end());
  const std::string_view near = nearest(name, accepted);
  throw Error(ErrorCode::usage,
              fmt::format("unknown provider '{}'{}; accepted: {}, or a list like cuda,cpu", name,
                          near.empty() ? "" : fmt::format("; did you mean '{}'?", near), join(accepted)));
}

}  // namespace

System this_system() noexcept {
#if defined(__APPLE__)
  return System::macos;
#elif defined(_WIN32)
  return System::windows;
#else
  return System::linux_;
#endif
}

Request parse_request(std::string_view text, const std::vector<std::string>& own_names) {
  Request request;
  request.text = text;
  std::vector<std::string> words = split(text, ',');
  if (words.size() > 1 && words.back().empty()) {
    words.pop_back();  // "cuda,": a list of one
  } else if (words.size() == 1) {
    const std::string word = lower(words[0]);
    if (word == "auto") return request;
    if (word == "fastest") {
      request.form = Request::Form::fastest;
      return request;
    }
    if (word == "gpu" || word == "npu") {
      request.form = Request::Form::kind;
      request.ids = {word};
      return request;
    }
    request.form = Request::Form::single;
    request.ids = {resolve(words[0], own_names, request)};
    return request;
  }
  request.form = Request::Form::list;
  for (const std::string& word : words) {
    const std::string kind = lower(word);
    if (kind == "auto" || kind == "fastest" || kind == "gpu" || kind == "npu") {
      throw Error(ErrorCode::usage,
                  fmt::format("provider list '{}': '{}' is no provider; a list names providers only", text, word));
    }
    add(request.ids, resolve(word, own_names, request));
  }
  return request;
}

std::vector<std::string> order_of(const Request& request, System system, std::span<const std::string> own_names) {
  std::vector<std::string> ids;
  switch (request.form) {
    case Request::Form::automatic:
      ids = graphics_order(system);
      break;
    case Request::Form::fastest:
      ids = graphics_order(system);
      for (const ProviderRow& row : table()) add(ids, row.id);
      break;
    case Request::Form::kind:
      ids = request.ids[0] == "npu" ? std::vector<std::string>{"vitisai", "qnn", "directml"} : graphics_order(system);
      break;
    case Request::Form::single:
      ids = request.ids;
      if (const ProviderRow* row = find_row(request.ids[0])) {
        for (const std::string_view next : row->chain) add(ids, next);
      }
      break;
    case Request::Form::list:
      return request.ids;
  }
  if (request.form != Request::Form::single) {
    for (const std::string& name : own_names) add(ids, name);
  }
  // The CPU ends every order, wherever the table put it.
  std::erase(ids, "cpu");
  ids.emplace_back("cpu");
  return ids;
}

}  // namespace gpux::provider
