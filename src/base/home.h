#pragma once

#include <filesystem>
#include <string>

namespace gpux {

/// Machine::home_folder() of the machine that this process runs on.
std::filesystem::path home_folder();

/// The running program's own file.
std::filesystem::path executable_path();

/// The file this code was loaded from: libgpux where a program uses it, else the program itself.
std::filesystem::path own_library_path();

/// Version of gpux: "0.1.0".
const char* version() noexcept;

/// The variable's value; empty where it is not set.
std::string environment_variable(const char* name);

}  // namespace gpux
