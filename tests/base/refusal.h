#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::test {

/// The message of the invalid_input that the call throws; "nothing was refused" where it throws nothing.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
    return error.message();
  }
  return "nothing was refused";
}

}  // namespace gpux::test
