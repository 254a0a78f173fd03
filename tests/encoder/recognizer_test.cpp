#include "recognizer.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux_encoder {
namespace {

using testing::HasSubstr;

TEST(Recognizer, SaysWhyItFindsNothing) {
  std::string reason;
  EXPECT_FALSE(recognize({}, reason));
  EXPECT_THAT(reason, HasSubstr("no embeddings"));
}

}  // namespace
}  // namespace gpux_encoder
