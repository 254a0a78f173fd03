#include "base/processors.h"

#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <sched.h>

#include "base/made_machine.h"

namespace gpux {
namespace {

using test::MadeMachine;
using testing::ElementsAre;
using testing::IsEmpty;

// `sockets` of `cores` with `siblings` threads: the kernel numbers one thread of each core first, as on most servers.
ProcessorFacts made(unsigned sockets, unsigned cores, unsigned siblings) {
  ProcessorFacts facts;
  const unsigned all = sockets * cores;
  for (unsigned id = 0; id < all * siblings; ++id) {
    facts.allowed.push_back({.id = id, .core = id % all, .node = id % all / cores});
  }
  facts.usable = all * siblings;
  return facts;
}

ProcessorFacts with_quota(ProcessorFacts facts, unsigned usable) {
  facts.usable = usable;
  return facts;
}

// Only processors `first` to `last`.
ProcessorFacts with_cpuset(const ProcessorFacts& facts, unsigned first, unsigned last) {
  ProcessorFacts part;
  for (const Processor& one : facts.allowed) {
    if (one.id >= first && one.id <= last) part.allowed.push_back(one);
  }
  part.usable = static_cast<unsigned>(part.allowed.size());
  return part;
}

TEST(ShareProcessors, SplitsCoresByReplicaWithinNumaNodes) {
  struct Row {
    const char* name;
    ProcessorFacts facts;
    unsigned replicas;
    std::vector<unsigned> threads;
    bool is_bound, has_one_node_each;
  };

  const ProcessorFacts server = made(2, 32, 2);
  for (const Row& row : std::vector<Row>{
           {"one for all cores", server, 1, {64}, true, false},
           {"one a socket", server, 2, {32, 32}, true, true},
           {"two a socket", server, 4, {16, 16, 16, 16}, true, true},
           {"three do not divide evenly", server, 3, {22, 21, 21}, true, false},
           {"one a core", server, 64, std::vector<unsigned>(64, 1), true, true},
           {"more than cores", server, 128, std::vector<unsigned>(128, 1), true, true},
           {"more than processors", server, 200, std::vector<unsigned>(200, 1), false, false},
           {"a quota of 4 of 64 processors", with_quota(made(1, 64, 1), 4), 2, {2, 2}, false, false},
           {"a quota below the replicas", with_quota(server, 2), 4, {1, 1, 1, 1}, false, false},
           {"a quota above the cores", with_quota(server, 100), 2, {32, 32}, true, true},
           {"a container with 8 cores of the second socket", with_cpuset(server, 40, 47), 2, {4, 4}, true, true},
           {"a container across both", with_cpuset(server, 28, 35), 2, {4, 4}, true, true},
           {"two cores", made(1, 2, 1), 2, {1, 1}, true, true},
           {"one core with two threads", made(1, 1, 2), 2, {1, 1}, true, true},
           {"nothing is known", {.allowed = {}, .usable = 6}, 4, {2, 2, 1, 1}, false, false},
       }) {
    SCOPED_TRACE(row.name);
    const std::vector<ProcessorShare> shares = share_processors(row.facts, row.replicas);
    std::vector<unsigned> threads;
    std::set<unsigned> used, cores;
    for (const ProcessorShare& share : shares) {
      threads.push_back(share.threads);
      EXPECT_EQ(share.processors.size(), row.is_bound ? share.threads : 0U);
      std::set<unsigned> nodes;
      for (const unsigned id : share.processors) {
        EXPECT_TRUE(used.insert(id).second) << id << " has two";
        const auto one = std::ranges::find(row.facts.allowed, id, &Processor::id);
        ASSERT_NE(one, row.facts.allowed.end());
        cores.insert(one->core);
        nodes.insert(one->node);
      }
      if (row.has_one_node_each) {
        EXPECT_EQ(nodes.size(), 1U);
      }
    }
    EXPECT_EQ(threads, row.threads);
    std::set<unsigned> all_cores;
    for (const Processor& one : row.facts.allowed) all_cores.insert(one.core);
    if (used.size() <= all_cores.size()) {
      EXPECT_EQ(cores.size(), used.size()) << "SMT siblings";
    }
  }
}

TEST(UsableCores, AreOneForAllSiblings) {
  EXPECT_EQ(usable_cores(made(1, 2, 1)), 2);
  EXPECT_EQ(usable_cores(made(2, 32, 2)), 64);
  EXPECT_EQ(usable_cores(with_cpuset(made(1, 8, 2), 4, 11)), 8);  // 4 cores with one processor, and 4 with the other
  EXPECT_EQ(usable_cores(with_cpuset(made(1, 8, 2), 8, 15)), 8);
  EXPECT_EQ(usable_cores(with_quota(made(1, 8, 2), 12)), 8);
  EXPECT_EQ(usable_cores(with_quota(made(1, 8, 2), 3)), 3);
  EXPECT_EQ(usable_cores(with_quota(made(1, 1, 2), 2)), 1);
  EXPECT_EQ(usable_cores(with_quota({}, 4)), 4);  // the system does not say which they are
}

TEST(ShareProcessors, GivesOnnxRuntimeTheThreadsButTheFirstFromOneOn) {
  EXPECT_EQ(intra_op_affinities({.threads = 3, .processors = {4, 5, 9}}), "6;10");
  EXPECT_EQ(intra_op_affinities({.threads = 1, .processors = {4}}), "");
  EXPECT_EQ(intra_op_affinities({.threads = 3, .processors = {}}), "");
}

TEST(Processors, AreReadFromTheKernelsFiles) {
  const MadeMachine machine(R"(
/proc/thread-self/status = Cpus_allowed_list: 1-3,5-6
/sys/devices/system/cpu/online = 0-5
/sys/devices/system/node/node0/cpulist = 0-2
/sys/devices/system/node/node1/cpulist = 3-6
/sys/devices/system/cpu/cpu1/topology/thread_siblings_list = 1,3
/sys/devices/system/cpu/cpu2/topology/thread_siblings_list = 2
/sys/devices/system/cpu/cpu3/topology/thread_siblings_list = 1,3
/proc/self/cgroup = 0::/
/sys/fs/cgroup/cpu.max = 250000 100000
)");
  const ProcessorFacts facts = read_processors(machine);
  EXPECT_EQ(facts.usable, 3U);
  ASSERT_EQ(facts.allowed.size(), 4U);
  EXPECT_EQ(facts.allowed[0].id, 1U);
  EXPECT_EQ(facts.allowed[0].core, 1U);
  EXPECT_EQ(facts.allowed[0].node, 0U);
  EXPECT_EQ(facts.allowed[2].id, 3U);
  EXPECT_EQ(facts.allowed[2].core, 1U);
  EXPECT_EQ(facts.allowed[2].node, 1U);
  EXPECT_EQ(facts.allowed[3].core, 5U) << "not known: of its own";
  EXPECT_THAT(read_processors(MadeMachine("env HOME=/root\n")).allowed, IsEmpty());
}

TEST(BoundThread, IsBoundWhileItLives) {
  const auto allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    std::vector<unsigned> ids;
    for (unsigned id = 0; id < CPU_SETSIZE; ++id) {
      if (CPU_ISSET(id, &set)) ids.push_back(id);
    }
    return ids;
  };
  std::thread([&] {
    const std::vector<unsigned> before = allowed();
    {
      const BoundThread bound({before.back()});
      EXPECT_THAT(allowed(), ElementsAre(before.back()));
    }
    EXPECT_EQ(allowed(), before);
    const BoundThread free({});
    EXPECT_EQ(allowed(), before);
  }).join();
}

}  // namespace
}  // namespace gpux
