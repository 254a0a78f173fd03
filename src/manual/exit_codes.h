#pragma once

#include <array>

namespace gpux::manual {

/// An exit code of the program, for the help and the man pages.
struct ExitCode {
  int code;
  const char* name;     ///< a word or two, as `gpux --help` lists them
  const char* meaning;  ///< a phrase
};

constexpr std::array<ExitCode, 15> exit_codes{{
    {0, "done", "done"},
    {1, "bug", "a bug in gpux"},
    {2, "wrong usage", "wrong usage: a flag, a variable, an unknown provider"},
    {3, "gpux.yml", "an error in gpux.yml"},
    {4, "model", "the model file cannot be used"},
    {5, "provider",
     "the provider required by --strict cannot run here, or a provider failed in a run; verify, bench: the named "
     "provider did not run; health: the server is not healthy"},
    {6, "input", "the inputs do not fit the model, or a node fails on their values"},
    {7, "not found", "no such model, name, file or server"},
    {8, "memory", "the memory limit is exceeded, or no memory is left"},
    {9, "timeout", "the timeout passed"},
    {10, "network",
     "a port is in use, or a D-Bus bus, a server, a hub or a registry does not answer as it should: no connection, a "
     "rate "
     "limit, damaged data"},
    {11, "permission", "not allowed; pull: the repository is gated, or the token is wrong"},
    {12, "verify differs", "verify: the outputs differ"},
    {13, "storage", "the disk is full, read-only or unreadable, or data cannot be written to standard output"},
    {130, "interrupted", "interrupted"},
}};

}  // namespace gpux::manual
