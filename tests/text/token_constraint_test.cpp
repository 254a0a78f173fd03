#include "text/token_constraint.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::text {
namespace {
TEST(T, T) {}
}  // namespace
}  // namespace gpux::text
