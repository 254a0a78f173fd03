#include "generation/stop_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::generation {
namespace {

using Found = StopTexts::Found;

struct Row {
  std::vector<std::string> texts, pieces;
  std::optional<Found> found;  // in the last piece
  std::size_t held = 0;        // behind it
};

TEST(StopTexts, FindTheOneThatBeginsFirst) {
  for (const Row& row : std::vector<Row>{
           {{}, {"ab"}, {}, 0},
           {{"abc"}, {"xab"}, {}, 2},
           {{"abc"}, {"xab", "c"}, Found{0, 1}, 0},
           {{"abc"}, {"xab", "d"}, {}, 0},
           {{"abc"}, {"ab", "abc"}, Found{0, 3}, 0},
           {{"aab"}, {"aa", "ab"}, Found{0, 2}, 0},
           {{"abab"}, {"xababab"}, Found{0, 5}, 2},
           {{"b", "abc"}, {"abc"}, Found{1, 3}, 0},
           {{"b", "abc"}, {"a", "b"}, Found{0, 1}, 2},
           {{"c", "bc", "c"}, {"abc"}, Found{1, 3}, 0},
           {{"c", "c"}, {"abc"}, Found{0, 3}, 0},
           {{"xy", "yz"}, {"xyz"}, Found{0, 2}, 0},
           {{"xyzw", "zwu"}, {"axyz"}, {}, 3},
       }) {
    StopTexts stops(row.texts);
    std::optional<Found> found;
    for (const std::string& piece : row.pieces) found = stops.add(piece);
    EXPECT_EQ(found, row.found) << testing::PrintToString(row.pieces);
    EXPECT_EQ(stops.held(), row.held) << testing::PrintToString(row.pieces);
  }
}

// One of these is missed at its end, so that 1,023 bytes are held, and the others in their middle: compared anew at
// each byte, they would be 16 million comparisons a byte.
TEST(StopTexts, CompareAByteAFewTimesHoweverLongTheyAre) {
  constexpr std::size_t count = 64, bytes = 1024, added = 20'000;
  std::vector<std::string> texts{std::string(bytes - 1, 'a') + 'b'};
  while (texts.size() < count) {
    texts.push_back(std::string(bytes / 2, 'a') + 'b' + std::string(bytes / 2 - 1, static_cast<char>(texts.size())));
  }
  StopTexts stops(texts);
  for (std::size_t i = 0; i < added; ++i) ASSERT_FALSE(stops.add("a").has_value());
  EXPECT_EQ(stops.held(), bytes - 1);
  EXPECT_LE(stops.comparisons(), 3 * added * count);
  EXPECT_EQ(stops.add("b"), (StopTexts::Found{0, 1}));
}

}  // namespace
}  // namespace gpux::generation
