#include "server/requests/request_trace.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

TEST(TraceParent, IsReadAsTheStandardHasIt) {
  const auto context = read_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context->parent, "00f067aa0ba902b7");
  EXPECT_EQ(context->flags, "01");
  // A version to come may say more.
  EXPECT_TRUE(read_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes"));
}

TEST(TraceParent, IsNoneWhereItIsDamaged) {
  for (const char* text : {
           "",
           "00",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
       }) {
    EXPECT_FALSE(read_traceparent(text)) << text;
  }
}

}  // namespace
}  // namespace gpux::server
