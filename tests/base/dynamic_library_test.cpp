#include "base/dynamic_library.h"

#include <gmock/gmock.h>

#include "base/made_machine.h"

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
  EXPECT_THAT(
      missing_here({}, {.also = {"libgpux_nowhere.so.1", "libc.so.6"}, .optional = {}, .preferred = {}, .folders = {}}),
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

  EXPECT_THAT(
      missing_here(library,
                   {.also = {}, .optional = {}, .preferred = {}, .folders = {folder / "nowhere", folder / "vendor"}}),
      IsEmpty());
  const auto opened = DynamicLibrary::open(library, failure);
  ASSERT_TRUE(opened);
  EXPECT_NE(opened->symbol("gpux_vendor_library"), nullptr);
}

// What is opened on a machine, in order.
std::vector<std::string> opened_on(const test::MadeMachine& made, const LibraryNeeds& needs) {
  std::vector<std::string> opened;
  Machine machine = made;
  machine.opens_library = [&, opens = machine.opens_library](const std::filesystem::path& library) {
    if (!opens(library)) return false;
    opened.push_back(library.is_absolute() ? library.lexically_relative(made->root).string() : library.string());
    return true;
  };
  EXPECT_THAT(missing_libraries({}, needs, machine), IsEmpty());
  return opened;
}

TEST(MissingLibraries, AreTakenFromThePreferredFoldersBeforeTheSystem) {
  const test::MadeMachine machine("/usr/lib/liba.so.9\n/usr/lib/libb.so.9\n/own/liba.so.9.1\n/other/liba.so.9\n");
  const LibraryNeeds needs{.also = {"liba.so.9", "libb.so.9"},
                           .optional = {"libc_of_nobody.so.9"},
                           .preferred = {machine.operator->()->at("/own")},
                           .folders = {machine.operator->()->at("/other")}};
  EXPECT_THAT(opened_on(machine, needs), ElementsAre("own/liba.so.9.1", "libb.so.9"));
}

}  // namespace
}  // namespace gpux
