#include "kernels/memory_nodes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <optional>
#include <string_view>

#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gpux_cpu {
namespace {

// Beyond these no machine has nodes (CONFIG_NODES_SHIFT).
constexpr unsigned most_nodes = 1024, most_processors = 1U << 16U;

std::optional<unsigned> number_of(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// "0-15" or "3".
bool has_allowed(std::string_view range, const std::function<bool(unsigned)>& is_allowed) {
  const std::size_t dash = range.find('-');
  const auto first = number_of(range.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
  if (!first || !last) return false;
  for (unsigned processor = *first; processor <= std::min(*last, most_processors); ++processor) {
    if (is_allowed(processor)) return true;
  }
  return false;
}

#if defined(__linux__)
std::map<unsigned, std::string> processors_of_nodes() {
  std::map<unsigned, std::string> processors;
  for (unsigned node = 0; node < most_nodes; ++node) {
    std::ifstream list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    if (list) std::getline(list, processors[node]);
  }
  return processors;
}

// Those of this thread, whose processors differ from session to session.
std::vector<unsigned> nodes_of_thread() {
  static const std::map<unsigned, std::string> processors = processors_of_nodes();
  if (processors.size() < 2) return {};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  return nodes_in_use(
      processors, [&](unsigned processor) { return processor < CPU_SETSIZE && CPU_ISSET(processor, &allowed) != 0; });
}

// Whether somebody has said where the memory is to be, as by numactl.
bool has_memory_policy() noexcept {
  int policy = MPOL_DEFAULT;
  return ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT;
}
#endif

}  // namespace

std::vector<unsigned> nodes_in_use(const std::map<unsigned, std::string>& processors,
                                   const std::function<bool(unsigned)>& is_allowed) {
  std::vector<unsigned> used;
  for (const auto& [node, list] : processors) {
    bool any = false;
    std::string_view left = list;
    while (!any && !left.empty()) {
      const std::size_t comma = std::min(left.find(','), left.size());
      any = has_allowed(left.substr(0, comma), is_allowed);
      left.remove_prefix(std::min(comma + 1, left.size()));
    }
    if (any) used.push_back(node);
  }
  return used;
}

void spread_over_nodes([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__)
  try {
    const std::vector<unsigned> nodes = nodes_of_thread();
    if (nodes.size() < 2 || has_memory_policy()) return;
    constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
    std::array<unsigned long, most_nodes / bits> mask{};
    for (const unsigned node : nodes) mask[node / bits] |= 1UL << (node % bits);
    // One more than the bits that are read: the kernel leaves out the last. Memory that was in use before is moved.
    (void)::syscall(SYS_mbind, memory, bytes, MPOL_INTERLEAVE, mask.data(), most_nodes + 1, MPOL_MF_MOVE);
  } catch (...) {  // they stay where they are written first
    return;
  }
#endif
}

}  // namespace gpux_cpu
