#include "cli/inputs.h"

#include <CLI/App.hpp>

namespace gpux::cli {

void add_input_flags(CLI::App& command, InputFlags& flags) {
  command
      .add_option("-i,--input", flags.inputs,
                  "JSON, a text, @FILE (.json .jsonl .npz .npy .pb .png .jpg .webp .txt), - for standard input, or "
                  "NAME=JSON, NAME=TEXT, NAME=@FILE; repeatable")
      ->allow_extra_args(false);  // one text a flag: else CLI11 takes "[…]" apart
  command.add_option("-f,--file", flags.file, "the same as --input @FILE");
}

}  // namespace gpux::cli
