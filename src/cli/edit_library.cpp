#include "cli/edit_library.h"

#include <optional>
#include <string>

#include "base/dynamic_library.h"
#include "base/log.h"

namespace gpux::cli {
namespace {

template <typename Function>
bool find(const DynamicLibrary& library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(library.symbol(name));
  return function != nullptr;
}

std::optional<EditLibrary> opened() {
  constexpr const char* file_name = "libedit.so.2";
  std::string failure;
  const auto library = DynamicLibrary::open(file_name, failure);
  if (!library) {
    log::info("lines are typed without editing, which needs {}, of Debian's libedit2: {}", file_name, failure);
    return std::nullopt;
  }
  EditLibrary edit{};
  const bool is_whole = find(*library, edit.init, "el_init") && find(*library, edit.end, "el_end") &&
                        find(*library, edit.get_option, "el_get") && find(*library, edit.set_option, "el_wset") &&
                        find(*library, edit.read_line, "el_wgets") && find(*library, edit.resize, "el_resize") &&
                        find(*library, edit.history_init, "history_winit") &&
                        find(*library, edit.history_end, "history_wend") && find(*library, edit.history, "history_w");
  if (!is_whole) log::info("lines are typed without editing: {} lacks a function", file_name);
  return is_whole ? std::optional(edit) : std::nullopt;
}

}  // namespace

const EditLibrary* EditLibrary::get() {
  static const std::optional<EditLibrary> library = opened();
  return library ? &*library : nullptr;
}

}  // namespace gpux::cli
