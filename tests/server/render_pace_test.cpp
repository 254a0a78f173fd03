#include "server/models/render_pace.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RenderPace, ATemplateIsQuickOnceItWasAndWhileItWasNotSlowLately) {
  const RenderPace::Clock::time_point start = RenderPace::Clock::now();
  RenderPace pace;
  EXPECT_FALSE(pace.is_quick(start));
  pace.note(milliseconds(1), start);
  EXPECT_TRUE(pace.is_quick(start));

  pace.note(RenderPace::slow, start + seconds(10));
  EXPECT_FALSE(pace.is_quick(start + seconds(10)));
  // What the request contains decides, too: a quick one proves nothing.
  pace.note(milliseconds(1), start + seconds(11));
  EXPECT_FALSE(pace.is_quick(start + seconds(69)));
  EXPECT_TRUE(pace.is_quick(start + seconds(10) + RenderPace::distrust));
}

TEST(RenderPace, ATemplateThatWasSlowAtFirstIsNotQuick) {
  const RenderPace::Clock::time_point start = RenderPace::Clock::now();
  RenderPace pace;
  pace.note(seconds(2), start);
  pace.note(milliseconds(1), start);
  EXPECT_FALSE(pace.is_quick(start + seconds(1)));
}

}  // namespace
}  // namespace gpux::server
