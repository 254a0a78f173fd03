#include "provider/device_memory.h"

#include <gmock/gmock.h>

#include "base/made_machine.h"
#include "gpux/error.h"

namespace gpux::provider {
namespace {

using test::MadeMachine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NvmlReport two_of_nvidia() {
  NvmlReport report;
  report.is_open = true;
  report.devices = {
      {.name = "NVIDIA H100", .uuid = "a", .address = "0000:01:00.0", .memory_bytes = 80, .free_bytes = 30},
      {.name = "NVIDIA H100", .uuid = "b", .address = "0000:02:00.0", .memory_bytes = 80}};
  return report;
}

TEST(DeviceMemory, IsOfNvmlAndOfTheKernelsAmdDriver) {
  const MadeMachine machine(R"(
pci 0000:03:00.0 1002:744c 030000 amdgpu
pci 0000:04:00.0 1002:744c 030000 amdgpu
pci 0000:05:00.0 8086:56a0 030000 i915
/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total = 1000
/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used = 400
/sys/bus/pci/devices/0000:04:00.0/mem_info_vram_total = 1000
)");
  const auto memory = device_memory(machine, two_of_nvidia());
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory.at("0000:01:00.0").total, 80U);
  EXPECT_EQ(memory.at("0000:01:00.0").free, 30U);
  EXPECT_EQ(memory.at("0000:03:00.0").free, 600U);
  EXPECT_THAT(read_device_memory(MadeMachine("env HOME=/root\n")), IsEmpty());
}

struct Row {
  const char* name;
  std::vector<DeviceRoom> devices;
  std::uint64_t session_bytes;
  std::optional<unsigned> count, first;
  std::vector<unsigned> expected, left_out;
  const char* refusal = nullptr;
};

TEST(PlaceSessions, PutsThemOnDevicesWithEnoughFreeMemory) {
  const std::optional<std::uint64_t> unknown;
  for (const Row& row : std::vector<Row>{
           // One on each with room.
           {"each", {{0, 100}, {1, 100}}, 40, {}, {}, {0, 1}, {}},
           {"one is full", {{0, 100}, {1, 39}, {2, 40}}, 40, {}, {}, {0, 2}, {1}},
           {"the first is full", {{0, 10}, {1, 100}}, 40, {}, {}, {1}, {0}},
           {"the first is loaded already", {{1, 10}, {0, 100}}, 40, {}, 1, {1, 0}, {}},
           {"sizes are not known", {{0, unknown}, {1, unknown}}, 40, {}, {}, {0, 1}, {}},
           {"none has room",
            {{0, 10}, {1, 20}},
            40,
            {},
            {},
            {},
            {},
            "no device has room for session 1 of 1: each is expected to take 40 B, and free memory was device 0: 10 B, "
            "device 1: 20 B"},
           // More sessions than devices, and fewer.
           {"by free memory", {{0, 100}, {1, 300}}, 50, 4, {}, {1, 1, 1, 1}, {}},
           {"in turn", {{0, 100}, {1, 110}}, 20, 4, {}, {1, 0, 1, 0}, {}},
           {"fewer than devices", {{0, 10}, {1, 90}, {2, 50}}, 20, 2, {}, {1, 1}, {}},
           {"the loaded one counts", {{0, 100}, {1, 90}}, 40, 3, 0, {0, 1, 0}, {}},
           {"not known, in turn", {{0, unknown}, {1, unknown}}, 40, 5, {}, {0, 1, 0, 1, 0}, {}},
           {"not enough", {{0, 100}, {1, 50}}, 40, 4, 0, {}, {}, "no device has room for session 4 of 4"},
           {"nothing is free behind the first", {{0, 10}}, 40, 2, 0, {}, {}, "device 0: 10 B"},
           {"a model without weights", {{0, 0}}, 0, 2, 0, {0, 0}, {}},
       }) {
    SCOPED_TRACE(row.name);
    try {
      const SessionPlacement placement = place_sessions(row.devices, row.session_bytes, row.count, row.first);
      EXPECT_EQ(row.refusal, nullptr);
      EXPECT_EQ(placement.devices, row.expected);
      EXPECT_EQ(placement.left_out, row.left_out);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      ASSERT_NE(row.refusal, nullptr) << error.message();
      EXPECT_THAT(error.message(), HasSubstr(row.refusal));
    }
  }
}

}  // namespace
}  // namespace gpux::provider
