#include "base/processors.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <sched.h>

#include "base/spelling.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr unsigned most_processors = 1U << 16;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Of a list like "0-3,8"; empty where it is none.
std::set<unsigned> listed(const std::string& list) {
  std::set<unsigned> numbers;
  for (const std::string& range : split(list, ',')) {
    const std::size_t dash = range.find('-');
    const auto first = number_in(std::string_view(range).substr(0, dash));
    const auto last = dash == std::string::npos ? first : number_in(std::string_view(range).substr(dash + 1));
    if (!first || !last) return {};
    for (unsigned number = *first; number <= std::min(*last, most_processors); ++number) numbers.insert(number);
  }
  return numbers;
}

std::set<unsigned> allowed_processors(const Machine& machine) {
  constexpr std::string_view field = "Cpus_allowed_list:";
  std::ifstream stream(machine.at("/proc/thread-self/status"));
  std::set<unsigned> allowed;
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(field)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", field.size());
    if (begin != std::string::npos) allowed = listed(line.substr(begin));
  }
  const std::set<unsigned> online = listed(first_line(machine.at("/sys/devices/system/cpu/online")));
  std::erase_if(allowed, [&](unsigned id) { return !online.empty() && !online.contains(id); });
  return allowed;
}

std::map<unsigned, unsigned> nodes_of_processors(const Machine& machine) {
  std::map<unsigned, unsigned> nodes;
  for (const fs::path& folder : numbered_files(machine, "/sys/devices/system/node", "node")) {
    const auto node = number_in(folder.filename().string().substr(4));
    if (!node) continue;
    for (const unsigned id : listed(first_line(machine.at(folder) / "cpulist"))) nodes[id] = *node;
  }
  return nodes;
}

// The first `count` of a node's cores are left, one processor of each.
struct Node {
  std::vector<unsigned> cores;  // an id of each that may be used, then their siblings
  std::size_t taken = 0;

  [[nodiscard]] std::size_t left() const noexcept { return cores.size() - taken; }
};

// One processor of each core of each node, and with `siblings` the others behind them.
std::vector<Node> nodes_of(const ProcessorFacts& facts, bool siblings) {
  std::map<unsigned, Node> nodes;
  std::set<unsigned> cores;
  std::vector<Processor> others;
  for (const Processor& one : facts.allowed) {
    if (cores.insert(one.core).second) {
      nodes[one.node].cores.push_back(one.id);
    } else {
      others.push_back(one);
    }
  }
  if (siblings) {
    for (const Processor& one : others) nodes[one.node].cores.push_back(one.id);
  }
  std::vector<Node> all;
  all.reserve(nodes.size());
  for (auto& [number, node] : nodes) all.push_back(std::move(node));
  return all;
}

// Of the node with the most left, and of others where that has too few.
std::vector<unsigned> take(std::vector<Node>& nodes, unsigned count) {
  std::vector<unsigned> taken;
  while (taken.size() < count) {
    Node& most = *std::ranges::max_element(nodes, {}, &Node::left);
    if (most.left() == 0) break;
    taken.push_back(most.cores[most.taken++]);
    while (taken.size() < count && most.left() != 0) taken.push_back(most.cores[most.taken++]);
  }
  return taken;
}

std::vector<unsigned> own_affinity() {
  std::vector<unsigned> ids;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return ids;
  for (unsigned id = 0; id < CPU_SETSIZE; ++id) {
    if (CPU_ISSET(id, &set)) ids.push_back(id);
  }
  return ids;
}

void set_affinity(const std::vector<unsigned>& ids) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned id : ids) {
    if (id < CPU_SETSIZE) CPU_SET(id, &set);
  }
  // Where the cpuset has changed meanwhile, the thread stays where it was.
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

ProcessorFacts read_processors(const Machine& machine) {
  ProcessorFacts facts;
  facts.usable = usable_processors(machine);
  const std::map<unsigned, unsigned> nodes = nodes_of_processors(machine);
  for (const unsigned id : allowed_processors(machine)) {
    const fs::path topology = machine.at(fmt::format("/sys/devices/system/cpu/cpu{}/topology", id));
    const std::set<unsigned> siblings = listed(first_line(topology / "thread_siblings_list"));
    const auto node = nodes.find(id);
    facts.allowed.push_back(
        {.id = id, .core = siblings.empty() ? id : *siblings.begin(), .node = node == nodes.end() ? 0 : node->second});
  }
  return facts;
}

unsigned usable_cores(const ProcessorFacts& facts) {
  std::set<unsigned> cores;
  for (const Processor& one : facts.allowed) cores.insert(one.core);
  if (cores.empty()) return std::max(1U, facts.usable);
  return std::max(1U, std::min(facts.usable, static_cast<unsigned>(cores.size())));
}

unsigned usable_cores(const Machine& machine) {
  return usable_cores(read_processors(machine));
}

std::vector<ProcessorShare> share_processors(const ProcessorFacts& facts, unsigned replicas) {
  std::set<unsigned> cores;
  for (const Processor& one : facts.allowed) cores.insert(one.core);
  const bool needs_siblings = replicas > cores.size();
  const auto there = static_cast<unsigned>(needs_siblings ? facts.allowed.size() : cores.size());
  const unsigned budget = facts.allowed.empty() ? facts.usable : std::min(facts.usable, there);
  const bool is_bound = budget == there && replicas <= there;
  std::vector<Node> nodes = nodes_of(facts, needs_siblings);
  std::vector<ProcessorShare> shares;
  for (unsigned replica = 0; replica < replicas; ++replica) {
    // What does not divide evenly goes to the first.
    const unsigned part = budget / replicas + (replica < budget % replicas ? 1 : 0);
    ProcessorShare share{.threads = std::max(part, 1U), .processors = {}};
    if (is_bound) share.processors = take(nodes, share.threads);
    shares.push_back(std::move(share));
  }
  return shares;
}

std::string intra_op_affinities(const ProcessorShare& share) {
  std::string text;
  for (std::size_t i = 1; i < share.processors.size(); ++i) {
    text += fmt::format("{}{}", text.empty() ? "" : ";", share.processors[i] + 1);
  }
  return text;
}

BoundThread::BoundThread(const std::vector<unsigned>& processors) {
  if (processors.empty()) return;
  before_ = own_affinity();
  set_affinity(processors);
}

BoundThread::~BoundThread() {
  if (!before_.empty()) set_affinity(before_);
}

}  // namespace gpux
