#include "cli/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/files.h"

namespace gpux::cli {

ScratchFolder::ScratchFolder() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "gpux-XXXXXX").string();
  if (error) throw_file_error("find", "the folder for temporary files", error.value());
  if (::mkdtemp(pattern.data()) == nullptr) throw_file_error("make", pattern, errno);
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gpux::cli
