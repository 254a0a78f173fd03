// Downloads a model, shows how far it is, and prints the name it is stored under: pull REFERENCE
#include <gpux/error.h>
#include <gpux/pull.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    gpux::PullOptions options;
    options.connections = 4;
    gpux::PullListener listener;
    listener.on_progress = [](const gpux::PullProgress& progress) {
      if (progress.bytes > 0)
        std::fprintf(stderr, "\r%3.0f %%", 100.0 * double(progress.done) / double(progress.bytes));
    };
    listener.on_message = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    const gpux::PulledModel pulled = gpux::pull(argv[1], options, listener);
    std::printf("%s:%s %s\n", pulled.package.name.c_str(), pulled.package.tag.c_str(), pulled.summary.c_str());
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
