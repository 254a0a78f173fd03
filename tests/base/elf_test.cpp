#include "base/elf.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"

namespace gpux {
namespace {

std::optional<bool> exports(const std::string& library, std::string_view symbol) {
  return exports_elf_symbol(MappedFile(std::filesystem::path(PROVIDER_FOLDER) / ("lib" + library + ".so")).bytes(),
                            symbol);
}

TEST(ElfSymbols, AreFoundInBothKindsOfHashTables) {
  struct Case {
    const char* library;
    bool is_bridge, is_plugin;
  };

  for (const Case& one :
       {Case{"made_bridge", true, false}, Case{"made_plugin", false, true}, Case{"made_bridge_and_plugin", true, true},
        Case{"made_neither", false, false}, Case{"made_plugin_of_older_linkers", false, true}}) {
    EXPECT_EQ(exports(one.library, "GetProvider"), one.is_bridge) << one.library;
    EXPECT_EQ(exports(one.library, "CreateEpFactories"), one.is_plugin) << one.library;
    EXPECT_EQ(exports(one.library, "CreateEpFactorie"), false) << one.library;
    EXPECT_EQ(exports(one.library, "made_for_tests"), true) << one.library;
  }
}

TEST(ElfBuildId, IsEmptyForWhatHasNone) {
  EXPECT_EQ(elf_build_id({}), "");
  const std::string text(4096, 'x');
  EXPECT_EQ(elf_build_id(std::as_bytes(std::span(text))), "");
  // A damaged file: every length and place may lie.
  const MappedFile file(std::filesystem::path(PROVIDER_FOLDER) / "libmade_neither.so");
  std::vector<std::byte> damaged(file.bytes().begin(), file.bytes().end());
  for (std::size_t i = 32; i < std::min<std::size_t>(damaged.size(), 1024); ++i) {
    const std::byte was = std::exchange(damaged[i], std::byte{0xff});
    EXPECT_LE(elf_build_id(damaged).size(), 128U);
    damaged[i] = was;
  }
}

TEST(ElfSymbols, AreUnknownForWhatIsNoLibrary) {
  EXPECT_FALSE(exports_elf_symbol({}, "GetProvider").has_value());
  const std::string text(4096, 'x');
  EXPECT_FALSE(exports_elf_symbol(std::as_bytes(std::span(text)), "GetProvider").has_value());
}

// Wherever a byte is damaged or the file is cut, the search ends and stays inside the file.
TEST(ElfSymbols, OfADamagedFileAreSearchedWithinIt) {
  for (const char* library : {"made_plugin", "made_plugin_of_older_linkers"}) {
    const MappedFile file(std::filesystem::path(PROVIDER_FOLDER) / (std::string("lib") + library + ".so"));
    const std::vector<std::byte> whole(file.bytes().begin(), file.bytes().end());
    for (std::size_t size = 0; size < whole.size(); size += 97) {
      (void)exports_elf_symbol(std::span(whole).first(size), "CreateEpFactories");
    }
    for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 2048); ++at) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = std::byte{0xff};
      (void)exports_elf_symbol(damaged, "CreateEpFactories");
    }
  }
}

}  // namespace
}  // namespace gpux
