// Continues a text, and prints it as it comes: generator MODEL PROMPT
#include <gpux/error.h>
#include <gpux/generator.h>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const gpux::Generator generator(argv[1]);
    gpux::GenerationSettings settings;
    settings.max_tokens = 20;
    const gpux::Completion completion = generator.generate(argv[2], settings, [](std::string_view piece) {
      std::printf("%.*s", static_cast<int>(piece.size()), piece.data());
      return std::fflush(stdout) == 0;  // false ends the text
    });
    std::printf("\n%zu tokens, %s\n", completion.tokens.size(), to_string(completion.reason).data());
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
