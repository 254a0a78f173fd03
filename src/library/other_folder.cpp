#include "library/other_folder.h"

#include "base/format_message.h"

namespace gpux {

namespace fs = std::filesystem;

Error in_other_folder(const Error& error, const fs::path& folder, const fs::path& other, const std::string& itself) {
  return error.renamed([&](const Subject& subject) -> Subject {
    if (subject.kind != Subject::Kind::file) return subject;
    const fs::path file = fs::path(subject.name).lexically_proximate(folder);
    if (file == ".") return file_at(itself);
    return *file.begin() == ".." || file.is_absolute() ? subject : file_at(other / file);
  });
}

}  // namespace gpux
