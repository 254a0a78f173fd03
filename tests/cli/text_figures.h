#pragma once

#include <gtest/gtest.h>

#include "server/raw_client.h"

namespace gpux::test {

/// Checks the headers in which text-embeddings-inference tells what an answer took.
inline void expect_figures(const http::Answered& answer, std::size_t characters, std::size_t tokens) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const auto number = [&](const char* name) {
    const std::string text = answer.header(name);
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_EQ(text.find_first_not_of("0123456789"), std::string::npos) << name << ": " << text;
    return text.empty() ? 0 : std::stoull(text);
  };
  EXPECT_EQ(answer.header("x-compute-type"), "cpu");
  EXPECT_EQ(number("x-compute-characters"), characters);
  EXPECT_EQ(number("x-compute-tokens"), tokens);
  const auto total = number("x-total-time");
  EXPECT_EQ(number("x-compute-time"), total);
  EXPECT_LE(number("x-tokenization-time") + number("x-queue-time") + number("x-inference-time"), total);
}

}  // namespace gpux::test
