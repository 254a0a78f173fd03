#pragma once

#include <histedit.h>

namespace gpux::cli {

/// The functions of libedit that are needed. It is opened when `gpux chat` first reads from a terminal, so that a
/// machine without it only does without editing.
struct EditLibrary {
  /// The loaded line-editing library; null if it is not installed.
  static const EditLibrary* get();

  decltype(&::el_init) init;
  decltype(&::el_end) end;
  decltype(&::el_get) get_option;
  decltype(&::el_wset) set_option;
  decltype(&::el_wgets) read_line;
  decltype(&::el_resize) resize;
  decltype(&::history_winit) history_init;
  decltype(&::history_wend) history_end;
  decltype(&::history_w) history;
};

}  // namespace gpux::cli
