#include "kernels/memory_nodes.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux_cpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<unsigned> nodes(const std::map<unsigned, std::string>& processors, const std::set<unsigned>& allowed) {
  return nodes_in_use(processors, [&](unsigned processor) { return allowed.contains(processor); });
}

TEST(MemoryNodes, AreThoseWithAProcessorThatMayBeUsed) {
  const std::map<unsigned, std::string> two{{0, "0-15,32-47"}, {1, "16-31,48-63"}};
  EXPECT_THAT(nodes(two, {0, 16}), ElementsAre(0, 1));
  EXPECT_THAT(nodes(two, {3, 47}), ElementsAre(0));
  EXPECT_THAT(nodes(two, {31}), ElementsAre(1));
  EXPECT_THAT(nodes(two, {48}), ElementsAre(1));
  EXPECT_THAT(nodes(two, {64}), IsEmpty());
  EXPECT_THAT(nodes({{0, "0"}, {2, "1"}, {3, ""}}, {0, 1}), ElementsAre(0, 2));  // memory without processors
  EXPECT_THAT(nodes({{0, "0-1"}}, {0, 1}), ElementsAre(0));
}

TEST(MemoryNodes, HaveNoneWhereLinuxListsNone) {
  for (const char* list : {"", ",", "-", "1-", "-1", "a", "1-b", "99999999999", "3-1"}) {
    EXPECT_THAT(nodes({{0, list}}, {1, 2, 3}), IsEmpty()) << list;
  }
  EXPECT_THAT(nodes({{0, "0-4294967295"}}, {100000}), IsEmpty());  // it ends
}

// On this machine, whatever it has.
TEST(MemoryNodes, LeaveMemoryUsable) {
  alignas(4096) static std::byte memory[8192];
  spread_over_nodes(memory, sizeof(memory));
  for (std::byte& one : memory) one = std::byte{1};
  EXPECT_EQ(memory[8191], std::byte{1});
}

}  // namespace
}  // namespace gpux_cpu
