#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpux/export.h"
#include "gpux/model.h"

namespace gpux {

/// A package in the store, under one of its names.
struct StoredPackage {
  std::string name, tag;  ///< "digits", "1.0.0"
  std::string id;         ///< "sha256:" and 64 hexadecimal digits
  std::string created;    ///< "2026-01-31T12:00:00Z"
  std::uint64_t size_bytes = 0;
  std::string damage;    ///< what is wrong with it; empty: nothing that shows without reading its files
  std::string source;    ///< the address that it was pulled from; empty: it was made on this machine
  std::string revision;  ///< the commit of the source; may be empty
};

/// The models of this user, as `gpux images` lists them. Several processes may use it at once, and so may threads.
class GPUX_API ModelStore {
 public:
  /// The store in GPUX_HOME, or in ~/.gpux.
  ModelStore();
  /// The store in `home`, in place of GPUX_HOME.
  explicit ModelStore(const std::filesystem::path& home);
  ~ModelStore();
  ModelStore(ModelStore&&) noexcept;
  ModelStore& operator=(ModelStore&&) noexcept;

  /// All packages by name, in alphabetical order. Error storage.
  [[nodiscard]] std::vector<StoredPackage> list() const;

  /// Finds a package by NAME[:TAG] or an id of 4 or more digits; empty if there is none. Errors storage; usage (an id
  /// of several).
  [[nodiscard]] std::optional<StoredPackage> find(const std::string& model) const;

  /// Stores a model with its gpux.yml, as `gpux build` does: `model` is a path. It is loaded once, which proves that it
  /// runs. Errors not_found, invalid_model, invalid_config, storage; of Runtime.
  StoredPackage build(const std::string& model, const std::string& name, const ModelOptions& options = {});

  /// Stores a folder of Hugging Face's layout, as `gpux import` does; weights in safetensors are made an ONNX file.
  /// Errors not_found, invalid_model, invalid_config, storage; of Runtime.
  StoredPackage import_folder(const std::filesystem::path& folder, const std::string& name,
                              const ModelOptions& options = {});

  /// Gives the model another name. Returns the package under the new name. Error not_found.
  StoredPackage tag(const std::string& model, const std::string& name);

  /// Removes the name, and the package with its last name. Error not_found.
  void remove(const std::string& name);

  /// Removes contents that no package uses. Returns the number of bytes freed.
  std::uint64_t prune();

  /// Verifies every file of the package against its digest. Returns one message per damaged or missing file; empty: all
  /// are intact. Error not_found.
  [[nodiscard]] std::vector<std::string> verify(const std::string& model) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux
