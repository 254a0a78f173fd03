// Generates a text that is valid against a JSON schema: output_constraint MODEL PROMPT
#include <gpux/error.h>
#include <gpux/generator.h>
#include <gpux/output_constraint.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const gpux::Generator generator(argv[1]);
    gpux::GenerationSettings settings;
    settings.max_tokens = 50;
    settings.constraint = {.kind = gpux::OutputConstraint::Kind::json_schema, .text = R"({"enum": [true, false]})"};
    const gpux::Completion completion = generator.generate(argv[2], settings);
    std::printf("%s\n", completion.text.c_str());
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
