#include "base/dynamic_library.h"

#include <gmock/gmock.h>

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::filesystem::path folder = LIBRARY_FOLDER;

std::vector<std::string> missing_here(const std::filesystem::path& library, const LibraryNeeds& needs = {}) {
  return missing_libraries(library, needs, Machine::this_one());
}

TEST(MissingLibraries, NamesWhatNobodyFinds) {
  EXPECT_THAT(missing_here(folder / "libneeds_vendor.so"), ElementsAre("libvendor_outer.so"));
  EXPECT_THAT(missing_here({}, {.also = {"libgpux_nowhere.so.1", "libc.so.6"}, .folders = {}}),
              ElementsAre("libgpux_nowhere.so.1"));
}

TEST(MissingLibraries, AreNoneForAFileThatIsNoLibrary) {
  EXPECT_THAT(missing_here(folder / "CTestTestfile.cmake"), IsEmpty());
}

// The folders hold two libraries, one of which needs the other: both must be open before the third finds them.
TEST(MissingLibraries, AreTakenFromTheGivenFoldersSoThatTheLibraryOpens) {
  const std::filesystem::path library = folder / "libneeds_vendor.so";
  std::string failure;
  EXPECT_FALSE(DynamicLibrary::open(library, failure));
  EXPECT_THAT(failure, testing::HasSubstr("libvendor_outer.so"));

  EXPECT_THAT(missing_here(library, {.also = {}, .folders = {folder / "nowhere", folder / "vendor"}}), IsEmpty());
  const auto opened = DynamicLibrary::open(library, failure);
  ASSERT_TRUE(opened);
  EXPECT_NE(opened->symbol("gpux_vendor_library"), nullptr);
}

}  // namespace
}  // namespace gpux
