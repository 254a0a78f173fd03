#include "base/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/made_machine.h"

namespace gpux {
namespace {

using test::MadeMachine;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(Machine, HasTheProcessorsAndTheMemoryThatItsContainerLeaves) {
  struct Case {
    const char* name;
    const char* machine;
    unsigned processors;
    std::uint64_t memory_bytes;
  };

  const Case cases[] = {
      {"64 processors",
       "/proc/thread-self/status = Name:\tgpux\\nCpus_allowed_list:\t0-63\n"
       "/proc/meminfo = MemTotal:       67108864 kB\\nMemFree: 1 kB\n",
       64, 64 * gib},
      {"a cpuset of 4 of 64 processors",
       "/proc/thread-self/status = Cpus_allowed:\tf0\\nCpus_allowed_list:\t4-7\n"
       "/sys/devices/system/cpu/online = 0-63\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n",
       4, 64 * gib},
      {"a virtual machine to which processors could be added",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-127\n"
       "/sys/devices/system/cpu/online = 0-3\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n",
       4, 64 * gib},
      {"a cpuset in pieces",
       "/proc/thread-self/status = Cpus_allowed_list:\t0,2-3,17,32-35\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n",
       8, 64 * gib},
      {"two NUMA nodes",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-31\n"
       "/sys/devices/system/node/node0/cpulist = 0-15\n"
       "/sys/devices/system/node/node1/cpulist = 16-31\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n",
       32, 64 * gib},
      {"a container of cgroup v2: 1.5 processors, 2 GiB",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-63\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 0::/\n"
       "/sys/fs/cgroup/cpu.max = 150000 100000\n"
       "/sys/fs/cgroup/memory.max = 2147483648\n",
       2, 2 * gib},
      {"a container of cgroup v2 without limits",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-7\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 0::/\n"
       "/sys/fs/cgroup/cpu.max = max 100000\n"
       "/sys/fs/cgroup/memory.max = max\n",
       8, 64 * gib},
      {"cgroup v2, limited above the group itself",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-63\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 0::/slice/service\n"
       "/sys/fs/cgroup/slice/service/cpu.max = 800000 100000\n"
       "/sys/fs/cgroup/slice/cpu.max = 400000 100000\n"
       "/sys/fs/cgroup/slice/service/memory.max = max\n"
       "/sys/fs/cgroup/slice/memory.max = 1073741824\n",
       4, gib},
      {"a container of cgroup v1 that sees its own group as the root",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-63\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 5:memory:/docker/0123\\n4:cpu,cpuacct:/docker/0123\\n1:name=systemd:/\n"
       "/sys/fs/cgroup/cpu/cpu.cfs_quota_us = 150000\n"
       "/sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n"
       "/sys/fs/cgroup/memory/memory.limit_in_bytes = 1073741824\n",
       2, gib},
      {"cgroup v1 without limits",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-7\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 5:memory:/\\n4:cpu,cpuacct:/\n"
       "/sys/fs/cgroup/cpu/cpu.cfs_quota_us = -1\n"
       "/sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n"
       "/sys/fs/cgroup/memory/memory.limit_in_bytes = 9223372036854771712\n",
       8, 64 * gib},
      {"a quota of a tenth of a processor",
       "/proc/thread-self/status = Cpus_allowed_list:\t0-7\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 0::/\n"
       "/sys/fs/cgroup/cpu.max = 10000 100000\n",
       1, 64 * gib},
      {"a cpuset smaller than the quota",
       "/proc/thread-self/status = Cpus_allowed_list:\t3\n"
       "/proc/meminfo = MemTotal: 67108864 kB\n"
       "/proc/self/cgroup = 0::/\n"
       "/sys/fs/cgroup/cpu.max = 400000 100000\n",
       1, 64 * gib},
  };
  for (const Case& one : cases) {
    const MadeMachine machine(one.machine);
    EXPECT_EQ(usable_processors(machine), one.processors) << one.name;
    EXPECT_EQ(usable_memory_bytes(machine), one.memory_bytes) << one.name;
  }
}

// What is not there to read says nothing of the machine: this process's own figures are used.
TEST(Machine, WithoutItsFilesHasWhatTheSystemReports) {
  for (const char* text : {"", "/proc/thread-self/status = Cpus_allowed_list:\tnone\n/proc/meminfo = MemTotal: ?\n"}) {
    const MadeMachine machine(text);
    EXPECT_GE(usable_processors(machine), 1U);
    EXPECT_GT(usable_memory_bytes(machine), std::uint64_t{1} << 20);
  }
  EXPECT_GE(usable_processors(Machine::this_one()), 1U);
  EXPECT_GT(usable_memory_bytes(Machine::this_one()), std::uint64_t{1} << 20);
}

TEST(Machine, ListsTheAcceleratorsOfItsBusByAddress) {
  const MadeMachine machine(
      "pci 0000:02:00.0 10de:2330 030200 nvidia\n"
      "pci 0000:00:1f.0 8086:7a04 060100 lpc\n"
      "pci 0000:00:0b.0 8086:7d1d 120000 intel_vpu\n"
      "pci 0000:00:02.0 8086:7d55 030000\n");
  std::vector<std::string> found;
  for (const PciDevice& device : pci_accelerators(machine)) {
    std::ostringstream text;
    text << device.address << std::hex << " " << device.vendor_id << ":" << device.device_id << " "
         << device.class_code;
    found.push_back(text.str());
  }
  EXPECT_THAT(found, ElementsAre("0000:00:02.0 8086:7d55 30000", "0000:00:0b.0 8086:7d1d 120000",
                                 "0000:02:00.0 10de:2330 30200"));
  EXPECT_THAT(pci_accelerators(MadeMachine("")), IsEmpty());
}

TEST(Machine, ReadsItsProcessor) {
  const MadeMachine old(
      "/proc/cpuinfo = processor\t: 0\\nmodel name\t: Xeon E5\\nflags\t\t: fpu avx2\\nflags\t\t: avx_vnni\n");
  EXPECT_EQ(processor_name(old), "Xeon E5");
  EXPECT_EQ(adds_byte_products_exactly(old), !is_x86());
  for (const char* flag : {"avx512_vnni", "avx_vnni"}) {
    EXPECT_TRUE(adds_byte_products_exactly(
        MadeMachine(std::string("/proc/cpuinfo = model name\t: New\\nflags\t\t: fpu ") + flag + " x\n")));
  }
  EXPECT_EQ(processor_name(MadeMachine("")), "");
}

TEST(Machine, HasItsOwnEnvironmentAndHome) {
  const MadeMachine machine("env HOME=/home/user\nenv OTHER=1\n");
  EXPECT_EQ(machine->variable("OTHER"), "1");
  EXPECT_EQ(machine->variable("PATH"), "");
  EXPECT_EQ(machine->home_folder(), machine->root / "home/user/.gpux");
  const MadeMachine other("env HOME=/home/user\nenv GPUX_HOME=/srv/gpux\n");
  EXPECT_EQ(other->home_folder(), other->root / "srv/gpux");
  EXPECT_EQ(Machine::this_one().at("/dev/dri"), "/dev/dri");
  EXPECT_EQ(machine->at("relative/file"), "relative/file");
}

}  // namespace
}  // namespace gpux
