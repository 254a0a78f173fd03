#include "base/checksum.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/sha256.h"

namespace gpux {
namespace {

std::vector<std::byte> numbered(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

TEST(Checksum, ChangesWithEachBitAndWithTheLength) {
  for (const std::size_t count : {0U, 1U, 7U, 8U, 31U, 32U, 33U, 100U}) {
    std::vector<std::byte> bytes = numbered(count);
    std::set<std::uint64_t> sums{checksum_of(bytes)};
    for (std::size_t bit = 0; bit < 8 * count; ++bit) {
      const auto flip = static_cast<std::byte>(1U << bit % 8);
      bytes[bit / 8] ^= flip;
      EXPECT_TRUE(sums.insert(checksum_of(bytes)).second) << count << " bytes, bit " << bit;
      bytes[bit / 8] ^= flip;
    }
    bytes.push_back(std::byte{0});
    EXPECT_TRUE(sums.insert(checksum_of(bytes)).second) << count;
  }
}

TEST(Checksum, ChangesWithTheOrder) {
  std::vector<std::byte> bytes = numbered(128);
  const std::uint64_t before = checksum_of(bytes);
  std::rotate(bytes.begin(), bytes.begin() + 32, bytes.end());
  EXPECT_NE(checksum_of(bytes), before);
}

// Files have it: another number would make all of them damaged.
TEST(Checksum, IsTheSameInEachBuild) {
  EXPECT_EQ(checksum_of({}), 0xa6328dc10fc269d7);
  EXPECT_EQ(checksum_of(numbered(100)), 0x8eff7d6a613b7a90);
}

// RFC 4231, test case 2.
TEST(Sha256, HasAKeyedForm) {
  EXPECT_EQ(hmac_sha256_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace gpux
