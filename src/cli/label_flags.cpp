#include "cli/label_flags.h"

#include <CLI/App.hpp>

namespace gpux::cli {

void add_label_flags(CLI::App& command, LabelFlags& flags) {
  CLI::Option* labels = command
                            .add_option("--labels", flags.labels,
                                        "zero-shot classification by these labels, separated by commas; repeatable")
                            ->delimiter(',')
                            ->allow_extra_args(false);
  command
      .add_option("--template", flags.label_template,
                  "what is said with a label, in place of {}: 'This example is {}.' (default)")
      ->needs(labels);
  command.add_flag("--multi-label", flags.multi_label, "judge each label for itself: scores do not sum up to 1")
      ->needs(labels);
}

}  // namespace gpux::cli
