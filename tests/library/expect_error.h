#pragma once

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::test {

/// Expects that the call fails with this code and a message that has the text.
template <typename Call>
void expect_error(ErrorCode code, const std::string& text, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr(text));
  }
}

}  // namespace gpux::test
