#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "runtime/sharing/sharing_trial.h"

/// Results of try_sharing(), kept in the home folder: one file for each model, with an entry for each of the ways to
/// compute it.
namespace gpux::runtime {

struct KeptTrial {
  std::string computed_by;  ///< SHA-256 of what computed it: versions, options, processor, and the sizes given
  std::string provider;     ///< "cpu", for messages
  std::string runtime_version;
  SharingTrial trial;
};

/// The files that decide over the answers: the weights and the steps around the model.
struct TrialSubject {
  std::filesystem::path weights;
  std::vector<std::filesystem::path> steps;
  std::vector<ExternalFile> external_files;
};

/// Where results for this content are kept; empty where the files cannot be read. Reads them as a whole.
std::filesystem::path kept_trials_file(const TrialSubject& subject);

/// Whether there may be results for it, by the size of the weights alone.
bool may_have_kept_trials(const TrialSubject& subject);

/// Reads the trials in the file; empty if it cannot be read.
std::vector<KeptTrial> read_kept_trials(const std::filesystem::path& file);

/// The one of the file that was computed so; empty: there is none.
std::optional<KeptTrial> find_kept_trial(const std::filesystem::path& file, std::string_view computed_by);

/// Adds the result, in the place of an earlier one of the same computed_by. Where it cannot be written, the trial will
/// be made again.
void keep_trial(const std::filesystem::path& file, KeptTrial trial);

/// Whether the outcome would be the same again: an outcome that depends on time or memory is not kept. Pure.
bool is_worth_keeping(const SharingTrial& trial);

}  // namespace gpux::runtime
