#include "base/unique_fd.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace gpux {
namespace {

int open_descriptor() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) != -1;
}

TEST(UniqueFd, ClosesItsDescriptorOnce) {
  int descriptor = -1;
  {
    const UniqueFd owner(open_descriptor());
    ASSERT_TRUE(owner);
    descriptor = owner.get();
    EXPECT_TRUE(is_open(descriptor));
  }
  EXPECT_FALSE(is_open(descriptor));
  UniqueFd owner(open_descriptor());
  descriptor = owner.get();
  owner.reset();
  EXPECT_FALSE(owner);
  EXPECT_FALSE(is_open(descriptor));
}

TEST(UniqueFd, IsMoved) {
  UniqueFd first(open_descriptor()), second(open_descriptor());
  const int moved = first.get(), replaced = second.get();
  second = std::move(first);
  EXPECT_EQ(second.get(), moved);
  EXPECT_TRUE(is_open(moved));
  EXPECT_FALSE(is_open(replaced));
  UniqueFd third(std::move(second));
  EXPECT_EQ(third.get(), moved);
  EXPECT_EQ(third.release(), moved);
  EXPECT_FALSE(third);
  EXPECT_TRUE(is_open(moved));
  third.reset(moved);
}

TEST(UniqueFd, ReportsTheErrorOfClose) {
  UniqueFd owner(open_descriptor());
  const int descriptor = owner.get();
  EXPECT_EQ(owner.close(), 0);
  EXPECT_FALSE(owner);
  EXPECT_EQ(owner.close(), 0) << "it has none";
  EXPECT_FALSE(is_open(descriptor));
  owner.reset(descriptor);  // of nobody
  EXPECT_EQ(owner.close(), EBADF);
}

}  // namespace
}  // namespace gpux
