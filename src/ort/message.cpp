#include "ort/message.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace gpux::ort {
namespace {

thread_local std::string logged_error;
thread_local std::vector<Remark> remarks;

constexpr std::size_t max_remarks = 16;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "/a/b.cc:71 " at `begin`: where it ends.
std::optional<std::size_t> end_of_source_place(std::string_view text, std::size_t begin) {
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  const std::size_t colon = word.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == word.size()) return std::nullopt;
  if (!std::all_of(word.begin() + static_cast<std::ptrdiff_t>(colon) + 1, word.end(), is_digit)) return std::nullopt;
  const std::string_view file = word.substr(0, colon);
  if (!file.ends_with(".cc") && !file.ends_with(".h") && !file.ends_with(".cpp")) return std::nullopt;
  return std::min(end + 1, text.size());
}

// A signature as the compiler spells it, "type name(types) const [with T = int]": where the text behind it begins.
std::size_t end_of_signature(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool had_parameters = false;
  std::size_t end = begin;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    if (c == '(' || c == '<' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == ']') --depth;
    had_parameters = had_parameters || (c == ')' && depth == 0);
    if (c == ' ' && depth <= 0 && had_parameters) break;
  }
  if (!had_parameters) return begin;
  end = std::min(end + 1, text.size());
  if (text.substr(end).starts_with("const ")) end += 6;
  if (text.substr(end).starts_with("[with ")) end = std::min(text.find("] ", end), text.size() - 2) + 2;
  return end;
}

// "[ONNXRuntimeError] : 11 : EP_FAIL : " at `begin`: where it ends.
std::optional<std::size_t> end_of_status(std::string_view text, std::size_t begin) {
  constexpr std::string_view mark = "[ONNXRuntimeError] : ";
  if (!text.substr(begin).starts_with(mark)) return std::nullopt;
  std::size_t end = begin + mark.size();
  for (int part = 0; part < 2; ++part) {
    const std::size_t next = text.find(" : ", end);
    if (next == std::string_view::npos) return std::nullopt;
    end = next + 3;
  }
  return end;
}

struct NodeFailure {
  std::string_view type, name;
  std::size_t end;
};

// "Non-zero status code returned while running Gather node. Name:'g' Status Message: " at `begin`.
std::optional<NodeFailure> node_failure(std::string_view text, std::size_t begin) {
  constexpr std::string_view before_name = " node. Name:'", behind_name = "' Status Message: ";
  if (!text.substr(begin).starts_with(node_failure_mark)) return std::nullopt;
  begin += node_failure_mark.size();
  const std::size_t type_end = text.find(before_name, begin);
  if (type_end == std::string_view::npos) return std::nullopt;
  const std::size_t name_begin = type_end + before_name.size();
  const std::size_t name_end = text.find(behind_name, name_begin);
  if (name_end == std::string_view::npos) return std::nullopt;
  return NodeFailure{text.substr(begin, type_end - begin), text.substr(name_begin, name_end - name_begin),
                     name_end + behind_name.size()};
}

// Which provider a type like "CUDAExecutionProvider_11491561507041041237_0" belongs to: ONNX Runtime calls so what it
// fused of the nodes that a provider claimed. Empty where it is another.
std::string_view fused_for(std::string_view type) {
  for (int number = 0; number < 2; ++number) {
    const std::size_t last = type.find_last_not_of("0123456789");
    if (last == std::string_view::npos || last + 1 == type.size() || type[last] != '_') return {};
    type = type.substr(0, last);
  }
  return type;
}

void append_place(std::string& readable, const NodeFailure& failure) {
  if (const std::string_view provider = fused_for(failure.type); !provider.empty()) {
    readable.append("a node of ").append(provider).append(": ");
  } else if (failure.name.empty()) {
    readable.append("a ").append(failure.type).append(" node: ");
  } else {
    readable.append(failure.type).append(" node '").append(failure.name).append("': ");
  }
}

}  // namespace

std::string readable_message(std::string_view text) {
  std::string readable;
  for (std::size_t i = 0; i < text.size();) {
    if (const auto status = end_of_status(text, i)) {
      i = *status;
    } else if (const auto failure = node_failure(text, i)) {
      append_place(readable, *failure);
      i = failure->end;
    } else if (text[i] == '/') {
      const auto place = end_of_source_place(text, i);
      if (place) {
        i = end_of_signature(text, *place);
      } else {
        readable += text[i++];
      }
    } else {
      const char c = text[i++];
      const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
      if (!blank) readable += c;
      if (blank && !readable.empty() && readable.back() != ' ') readable += ' ';
    }
  }
  while (!readable.empty() && readable.back() == ' ') readable.pop_back();
  return readable;
}

std::string take_logged_error() {
  return std::exchange(logged_error, {});
}

void remember_logged_error(std::string_view text) {
  logged_error = readable_message(text);
}

std::vector<Remark> take_remarks() {
  return std::exchange(remarks, {});
}

void remember_remark(std::string_view text) {
  const std::size_t colon = text.find(": ");
  const std::string_view provider = text.substr(0, colon);
  if (colon == std::string_view::npos || !provider.ends_with("ExecutionProvider") ||
      provider.find(' ') != std::string_view::npos) {
    return;
  }
  if (remarks.size() == max_remarks) remarks.erase(remarks.begin());
  remarks.push_back({std::string(provider), std::string(text.substr(colon + 2))});
}

}  // namespace gpux::ort
