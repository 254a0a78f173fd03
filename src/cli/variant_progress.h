#pragma once

#include <functional>
#include <string>

#include "cli/command.h"
#include "evaluation/kept_variant.h"

namespace gpux::cli {

/// Progress of making a variant, in one line on a terminal that is drawn over itself and gone with this.
class VariantProgress {
 public:
  explicit VariantProgress(const Context& context);
  ~VariantProgress();
  VariantProgress(const VariantProgress&) = delete;
  VariantProgress& operator=(const VariantProgress&) = delete;

  /// Listener that draws the progress; null if there is no terminal. Not to be called after this is gone.
  [[nodiscard]] evaluation::VariantListener listener() const;

 private:
  bool is_shown_;
};

}  // namespace gpux::cli
