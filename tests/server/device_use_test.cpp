#include "server/models/device_use.h"

#include <gmock/gmock.h>

namespace gpux::server {
namespace {

DeviceSession session(std::uint32_t index, const std::string& address) {
  Device device;
  device.kind = "gpu";
  device.index = index;
  device.address = address;
  return {.provider = "cuda", .device = device};
}

std::vector<std::uint64_t> bytes_of(const std::vector<DeviceUse>& uses) {
  std::vector<std::uint64_t> all;
  all.reserve(uses.size());
  for (const DeviceUse& use : uses) all.push_back(use.bytes);
  return all;
}

const MemoryOfDevices before{{"a", {.total = 1000, .free = 900}}, {"b", {.total = 1000, .free = 500}}};

TEST(DeviceUses, AreWhatIsNoLongerFree) {
  const std::vector sessions{session(0, "a"), session(1, "b")};
  const MemoryOfDevices after{{"a", {.total = 1000, .free = 850}}, {"b", {.total = 1000, .free = 100}}};
  EXPECT_THAT(bytes_of(device_uses(sessions, 70, before, after)), testing::ElementsAre(50, 400));
}

TEST(DeviceUses, AreWhatIsExpectedWhereThatIsNotKnown) {
  const std::vector sessions{session(0, "a"), session(1, "unknown"), session(2, ""), session(2, ""), session(3, "")};
  // Somebody else has freed more of the first.
  const MemoryOfDevices after{{"a", {.total = 1000, .free = 950}}};
  const std::vector<DeviceUse> uses = device_uses(sessions, 70, before, after);
  EXPECT_THAT(bytes_of(uses), testing::ElementsAre(70, 70, 140, 70));
  EXPECT_EQ(uses[2].key(), "cuda 2");
  EXPECT_EQ(uses[0].key(), "a");
}

TEST(DeviceUses, CountAllSessionsOfADeviceOnce) {
  const std::vector sessions{session(0, "a"), session(0, "a"), session(0, "a")};
  const MemoryOfDevices after{{"a", {.total = 1000, .free = 600}}};
  EXPECT_THAT(bytes_of(device_uses(sessions, 70, before, after)), testing::ElementsAre(300));
  EXPECT_THAT(bytes_of(device_uses(sessions, 70, before, {})), testing::ElementsAre(210));
  EXPECT_THAT(device_uses({}, 70, before, after), testing::IsEmpty());
}

}  // namespace
}  // namespace gpux::server
