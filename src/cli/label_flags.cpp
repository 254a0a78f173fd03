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
                  "the sentence for a label, which takes the place of {} (default: 'This example is {}.')")
      ->needs(labels);
  command.add_flag("--multi-label", flags.multi_label, "several labels may be true: scores do not sum up to 1")
      ->needs(labels);
}

}  // namespace gpux::cli
